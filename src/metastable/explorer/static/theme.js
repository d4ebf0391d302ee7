// Light or dark: the reader's system decides until the reader does.

const dark = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () =>
  (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

export function watchTheme(button, changed) {
  try {
    const kept = localStorage.getItem("metastable-theme");
    if (kept) document.documentElement.dataset.theme = kept;
  } catch {
    // Storage is refused to pages opened from disk in some browsers: the choice is not kept then.
  }
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("metastable-theme", theme);
    } catch {
      // as above
    }
    changed();
  });
  dark.addEventListener("change", changed);
}
