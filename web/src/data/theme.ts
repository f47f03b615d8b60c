/** Light, dark, or as the system has it. */

const NAME = "pilothouse.theme";
const CHOICES = ["system", "light", "dark"] as const;
export type Choice = (typeof CHOICES)[number];

export class Theme {
  choice: Choice;

  constructor() {
    const kept = localStorage.getItem(NAME);
    this.choice = CHOICES.find((choice) => choice === kept) ?? "system";
    this.#apply();
  }

  next(): void {
    this.choice = CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length]!;
    localStorage.setItem(NAME, this.choice);
    this.#apply();
  }

  #apply(): void {
    if (this.choice === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = this.choice;
  }
}
