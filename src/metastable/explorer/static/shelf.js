// What the chosen folder holds: names that can be opened.

export function fillShelf(list, names, empty, open) {
  if (!names.length) {
    list.replaceChildren(
      Object.assign(document.createElement("li"), { className: "note", textContent: empty }),
    );
    return;
  }
  list.replaceChildren(
    ...names.map((name) => {
      const button = Object.assign(document.createElement("button"), {
        type: "button",
        textContent: name,
      });
      button.addEventListener("click", () => {
        for (const other of document.querySelectorAll(".shelf [aria-current]"))
          other.removeAttribute("aria-current");
        button.setAttribute("aria-current", "true");
        open(name);
      });
      const item = document.createElement("li");
      item.append(button);
      return item;
    }),
  );
}
