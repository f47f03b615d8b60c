import { useState } from "react";

export default function App() {
  const [count, setCount] = useState(0);
  return (
    <main>
      <h1 id="title">Hello from React</h1>
      <button id="count" onClick={() => setCount(count + 1)}>
        {count}
      </button>
    </main>
  );
}
