// Opens the form behind a link with data-sheet in a dialog, and shows the server's
// response to the form there too. Without scripts, or if a response has neither form nor
// way on, the browser opens the page.

import htmx from 'htmx.org';

const sheet = document.getElementById('sheet');
let typed = false; // since the last save

async function load(method, path, source, event) {
  await htmx.ajax(method, path, { source, event, target: '#sheet', swap: 'innerHTML', select: '.sheet' });
  if (!sheet.querySelector('form, .primary')) return location.assign(path);
  typed &&= Boolean(sheet.querySelector('form'));
  if (!sheet.open) sheet.showModal();
  const first = ['[aria-invalid]', '#result', '.limit-field input'].find((each) => sheet.querySelector(each));
  sheet.querySelector(first)?.focus();
}

const plainClick = (event) => !(event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

const leave = () => !typed || confirm('Discard what you typed?');

if (sheet) {
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-sheet]');
    if (!link || !plainClick(event)) return;
    event.preventDefault();
    load('GET', link.href, sheet);
  });
  sheet.addEventListener('submit', (event) => {
    event.preventDefault();
    // The property .action would return the buttons with the name action.
    load('POST', event.target.getAttribute('action'), event.target, event);
  });
  sheet.addEventListener('click', (event) => {
    const cancel = event.target.closest('.actions a.plain');
    if (event.target !== sheet && !cancel) return;
    event.preventDefault();
    if (leave()) sheet.close();
  });
  sheet.addEventListener('input', () => { typed = true; });
  sheet.addEventListener('cancel', (event) => leave() || event.preventDefault());
  sheet.addEventListener('close', () => {
    typed = false;
    sheet.replaceChildren();
  });
}
