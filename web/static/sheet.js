// Opens the form of a link with data-sheet in a dialog, and shows the server's response
// there too. Without scripts, and after errors, the form is a separate page.

import htmx from 'htmx.org';

const sheet = document.getElementById('sheet');

async function load(method, path, source, event) {
  await htmx.ajax(method, path, { source, event, target: '#sheet', swap: 'innerHTML', select: '.sheet' });
  if (!sheet.querySelector('form')) return location.assign(path);
  if (!sheet.open) sheet.showModal();
  (sheet.querySelector('[aria-invalid]') ?? sheet.querySelector('[id$="-requests"]'))?.focus();
}

const plainClick = (event) => !(event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

if (sheet) {
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-sheet]');
    if (!link || !plainClick(event)) return;
    event.preventDefault();
    load('GET', link.href, sheet);
  });
  sheet.addEventListener('submit', (event) => {
    event.preventDefault();
// The property .action would be the buttons of that name.
    load('POST', event.target.getAttribute('action'), event.target, event);
  });
  sheet.addEventListener('click', (event) => {
    const cancel = event.target.closest('.actions a.plain');
    if (event.target !== sheet && !cancel) return;
    event.preventDefault();
    sheet.close();
  });
  sheet.addEventListener('close', () => sheet.replaceChildren());
}
