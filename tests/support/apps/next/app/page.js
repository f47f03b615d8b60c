"use client";

import { useState } from "react";

export default function Page() {
  const [count, setCount] = useState(0);
  return (
    <main>
      <h1 id="title">Hello from Next</h1>
      <button id="count" onClick={() => setCount(count + 1)}>
        {count}
      </button>
    </main>
  );
}
