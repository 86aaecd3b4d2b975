// Light or dark theme: as the system has it, unless somebody chose.

const THEME = "retrograd-theme";

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  storage()?.setItem(THEME, theme);
  document.dispatchEvent(new Event("theme"));
}

/** Call something whenever light becomes dark, or dark light. */
function onTheme(changed) {
  document.addEventListener("theme", changed);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

function restoreTheme() {
  const theme = storage()?.getItem(THEME);
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

/** Where a choice is remembered. A page inside a notebook has no such place and says so by an error. */
function storage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
