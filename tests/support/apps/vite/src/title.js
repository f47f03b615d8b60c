export const title = "Hello from Vite";
