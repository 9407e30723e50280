// Opens the form behind a link with data-sheet in a dialog, and shows the server's
// response to the form there too. Without scripts, or if a response has neither form nor
// way on, the browser opens the page. Nobody leaves a form with typed text unasked, in a
// dialog or on a page.

const sheet = document.getElementById('sheet');
let typed = false; // since the last save
const ask = (event) => event.preventDefault(); // the browser's own question

function mark(is) {
  typed = is;
  (is ? addEventListener : removeEventListener)('beforeunload', ask);
}

async function load(method, path, source, event) {
  await htmx.ajax(method, path, { source, event, target: '#sheet', swap: 'innerHTML', select: '.sheet' });
  mark(typed && Boolean(sheet.querySelector('form')));
  if (!sheet.querySelector('form, .primary')) return location.assign(path);
  if (!sheet.open) sheet.showModal();
  const first = ['[aria-invalid]', '#result', '#limits'].find((each) => sheet.querySelector(each));
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
  // The Enter that opened the form may still be held down, and must not submit it or add lines.
  sheet.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && event.repeat) event.preventDefault();
  });
  sheet.addEventListener('click', (event) => {
    const cancel = event.target.closest('.actions a.plain');
    if (event.target !== sheet && !cancel) return;
    event.preventDefault();
    if (leave()) sheet.close();
  });
  sheet.addEventListener('htmx:before:response', ({ detail }) => detail.ctx.hx?.redirect && mark(false));
  sheet.addEventListener('cancel', (event) => leave() || event.preventDefault());
  sheet.addEventListener('close', () => {
    mark(false);
    sheet.replaceChildren();
  });
  document.addEventListener('input', ({ target }) => target.closest('[data-keep]') && mark(true));
  document.addEventListener('submit', (event) => {
    if (event.target.matches('[data-keep]') && !event.defaultPrevented) mark(false);
  });
}
