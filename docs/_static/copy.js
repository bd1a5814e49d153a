// A button that copies a block of code: of a console session, the lines after its prompts.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight > pre")) {
    if (block.closest(".output, .highlight-text")) continue;
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const lines = block.textContent.split("\n");
      const typed = lines.filter((line) => /^(>>>|\.\.\.) ?/.test(line));
      const text = typed.length ? typed.map((line) => line.slice(4)).join("\n") : block.textContent;
      await navigator.clipboard.writeText(text.trimEnd());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.parentElement.append(button);
  }
});
