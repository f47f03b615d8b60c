const byId = (id) => document.getElementById(id);
const euros = (amount) => `€ ${amount.toFixed(2)}`;
const basket = new Map();

const articles = await (await fetch("/api/articles")).json();
byId("articles").replaceChildren(...articles.map(card));
byId("order").addEventListener("submit", placeOrder);

function card(article) {
  const made = byId("article").content.cloneNode(true);
  made.querySelector("img").src = `pictures/${article.sku}.svg`;
  made.querySelector("h3").textContent = article.name;
  made.querySelector("p").textContent = article.about;
  made.querySelector("b").textContent = euros(article.price);
  const button = made.querySelector("button");
  button.textContent = "Add";
  button.setAttribute("aria-label", `Add ${article.name}`);
  button.addEventListener("click", () => add(article));
  return made;
}

function add(article) {
  basket.set(article.sku, (basket.get(article.sku) ?? 0) + 1);
  byId("receipt")?.remove();
  showBasket();
}

function showBasket() {
  const chosen = articles.filter(({ sku }) => basket.has(sku));
  byId("basket").replaceChildren(...chosen.map(basketLine));
  const goods = chosen.reduce((sum, { sku, price }) => sum + price * basket.get(sku), 0);
  byId("goods").textContent = euros(goods);
  byId("empty").hidden = chosen.length > 0;
  byId("sum").hidden = byId("order").hidden = chosen.length === 0;
}

function basketLine({ sku, name, price }) {
  const line = document.createElement("li");
  const amount = document.createElement("span");
  amount.textContent = euros(price * basket.get(sku));
  line.append(`${basket.get(sku)} × ${name}`, amount);
  return line;
}

async function placeOrder(event) {
  event.preventDefault();
  const { name, email } = Object.fromEntries(new FormData(byId("order")));
  const answer = await fetch("/api/orders", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name, email, items: Object.fromEntries(basket) }),
  });
  const { receipt } = await answer.json();
  showReceipt(receipt);
}

function showReceipt(receipt) {
  const title = document.createElement("h2");
  title.textContent = `Receipt ${receipt.number}`;
  const thanks = document.createElement("p");
  thanks.textContent = `${euros(receipt.total)} with postage. Thank you, ${receipt.name}.`;
  const section = document.createElement("section");
  section.id = "receipt";
  section.append(title, thanks);
  document.querySelector("aside").append(section);
  basket.clear();
  showBasket();
  byId("empty").hidden = true;
}
