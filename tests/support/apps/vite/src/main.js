import { title } from "./title.js";

document.querySelector("#title").textContent = title;
const button = document.querySelector("#count");
button.addEventListener("click", () => {
  button.textContent = String(Number(button.textContent) + 1);
});
