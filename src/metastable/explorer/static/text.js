// Words of the page that change while it plays.

/** Write a text where another stands: the same again would be laid out and painted anew. */
export function write(element, text) {
  const words = String(text);
  if (element.textContent !== words) element.textContent = words;
}
