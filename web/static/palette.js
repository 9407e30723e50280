// The palette: a dialog that searches for anything while one types. ⌘K or Ctrl+K opens it,
// as do / and the search field of the header. The focus stays in its field: the arrow keys
// choose a result of the list, Enter opens it.

const dialog = document.getElementById('palette');
const field = dialog?.querySelector('[role=combobox]');
const form = field?.form;
const list = document.getElementById('found');
const shortcut = /Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl+K';
let asked; // the text of the last request
let answered; // the text whose results are shown
let waiting = false; // Enter was pressed before the results came

const options = () => [...list.querySelectorAll('a')];
const say = (text) => { dialog.querySelector('[role=status]').textContent = text; };
const search = () => form.dispatchEvent(new Event('find'));

function openPalette(text = field.value) {
  if (document.querySelector('dialog[open]')) return;
  dialog.showModal();
  field.value = text;
  if (text) field.setSelectionRange(text.length, text.length);
  search();
}

const chosen = () => document.getElementById(field.getAttribute('aria-activedescendant'));

function choose(option) {
  chosen()?.removeAttribute('aria-selected');
  field.setAttribute('aria-activedescendant', option?.id ?? '');
  option?.setAttribute('aria-selected', 'true');
  option?.scrollIntoView({ block: 'nearest' });
}

// show makes options of the links that the server sent.
function show() {
  const all = options();
  all.forEach((link, i) => {
    link.id = `found-${i}`;
    link.tabIndex = -1;
    link.setAttribute('role', 'option');
    link.parentElement.setAttribute('role', 'none');
  });
  list.hidden = !all.length;
  field.setAttribute('aria-expanded', String(!list.hidden));
  choose(all[0]);
  say(all.length ? `${all.length} ${all.length === 1 ? 'result' : 'results'}. ↑ ↓ choose, Enter opens.` : 'No results.');
  answered = asked;
  if (waiting && answered === field.value) chosen()?.click();
}

function move(step) {
  const all = options();
  choose(all[(all.indexOf(chosen()) + step + all.length) % all.length]);
}

function enter() {
  waiting = answered !== field.value;
  if (waiting) search();
  else chosen()?.click();
}

function listen() {
  document.addEventListener('keydown', (event) => {
    if (event.key.toLowerCase() !== 'k' || event.ctrlKey === event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else openPalette();
  });
  field.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.isComposing) return;
    event.preventDefault();
    move(step);
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    enter();
  });
  field.addEventListener('input', () => { waiting = false; });
  // A click on the backdrop has the dialog itself as its target.
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());

  document.addEventListener('search-now', () => openPalette(''));

  const ours = ({ target }) => target === form;
  const failed = () => say('The server is not responding. Press Enter to try again.');
  document.addEventListener('htmx:before:request', (event) => { if (ours(event)) asked = field.value; });
  document.addEventListener('htmx:before:response', (event) => {
    const { response, hx } = event.detail.ctx;
    if (!ours(event) || response.status < 400 || hx?.redirect) return;
    event.preventDefault();
    failed();
  });
  document.addEventListener('htmx:error', (event) => ours(event) && failed());
  document.addEventListener('htmx:after:swap', (event) => ours(event) && show());

  const above = document.querySelector('.find input[type=search]');
  above.placeholder = `Search ${shortcut}`;
  const open = () => {
    openPalette(above.value);
    above.value = '';
  };
  above.addEventListener('click', open);
  above.addEventListener('input', open);
}

if (dialog) listen();
