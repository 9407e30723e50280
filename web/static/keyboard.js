// Keyboard shortcuts of one key: / opens the palette, r refreshes, ? lists the shortcuts.
// The list has a box that turns them off, for people who use voice input. Pages without a
// log-in have no shortcuts.

const dialog = document.getElementById('keyboard');
const opener = document.getElementById('keyboard-open');
const box = document.getElementById('keyboard-on');
const setting = 'tidegate-single-keys';

const typing = (element) => element.closest('input:not([type=checkbox]), textarea, select, [contenteditable]');

const actions = {
  '/': () => document.dispatchEvent(new Event('search-now')),
  '?': () => dialog.showModal(),
  r: () => document.dispatchEvent(new Event('refresh-now')),
};

function listen() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !box.checked) return;
    if (document.querySelector('dialog[open]') || typing(event.target)) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  opener.hidden = false;
  opener.addEventListener('click', () => dialog.showModal());
  // A click on the backdrop has the dialog itself as its target.
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());

  box.checked = localStorage.getItem(setting) !== 'off';
  box.addEventListener('change', () => localStorage.setItem(setting, box.checked ? 'on' : 'off'));
}

if (dialog) listen();
