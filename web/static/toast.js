// Toasts: short notices over a corner of the page. A script shows one with
// document.dispatchEvent(new CustomEvent('toast', { detail: { text: 'Copied.' } })), a
// page with its Toast. A toast with an Undo button stays until it is dismissed.

const shown = 8000; // milliseconds

const list = () => document.getElementById('toasts');

function dismissable(toast) {
  const close = document.createElement('button');
  close.type = 'button';
  close.className = 'plain';
  close.textContent = 'Dismiss';
  close.addEventListener('click', () => toast.remove());
  toast.append(close);
}

// A toast stays while the pointer or the focus is in it.
function expire(toast) {
  setTimeout(() => (toast.matches(':hover, :focus-within') ? expire(toast) : toast.remove()), shown);
}

document.addEventListener('toast', ({ detail: { text, bad } }) => {
  const toast = document.createElement('div');
  toast.className = `toast notice ${bad ? 'bad' : 'good'}`;
  const words = document.createElement('p');
  words.textContent = text;
  toast.append(words);
  list().append(toast);
  dismissable(toast);
  expire(toast);
});

for (const toast of list().children) {
  const undo = toast.querySelector('form');
  dismissable(toast);
  if (!undo) expire(toast);
}
