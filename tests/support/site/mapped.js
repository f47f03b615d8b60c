// The readable source of mapped.min.js, which `esbuild --minify --sourcemap` made of it.

const basket = { items: [{ name: "rope", price: 12 }], customer: null };

function totalOf(order) {
  return order.items.reduce((sum, item) => sum + item.price, 0);
}

function checkCustomer(order) {
  if (order.customer === null) {
    throw new Error(`no customer for an order of ${totalOf(order)}`);
  }
}

document.getElementById("pay").addEventListener("click", function payClicked() {
  checkCustomer(basket);
});
