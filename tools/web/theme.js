// Dark, light, or the system's theme. A classic script before the body, so that the first paint has the right colours.
(() => {
  const KEY = 'edgeprof-theme';
  const ORDER = ['', 'dark', 'light'];
  const TEXT = { '': 'System', dark: 'Dark', light: 'Light' };
  const root = document.documentElement;
  const kept = () => {
    try {
      return ORDER.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : '';
    } catch {
      return ''; // no storage in private windows
    }
  };
  const apply = (theme) => {
    root.dataset.theme = theme;
    const button = document.getElementById('theme');
    if (button) {
      button.textContent = TEXT[theme];
    }
  };
  globalThis.nextTheme = () => {
    const theme = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // not stored: only for this page
    }
    apply(theme);
  };
  apply(kept());
  addEventListener('DOMContentLoaded', () => {
    document.getElementById('theme').addEventListener('click', globalThis.nextTheme);
    apply(root.dataset.theme);
  });
})();
