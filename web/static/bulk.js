// Selects keys of the list: their boxes, the box in the table's head, and the bar below,
// whose buttons change the selected keys. Without a script the bar's links reload the
// page.

const form = document.getElementById('bulk');
const status = form?.querySelector('[data-selected]');

const boxes = () => [...document.querySelectorAll('#keys input[name=id]')];
const above = () => document.querySelector('[data-select-all]');

function words(ticked, all) {
  const { page, all: matching } = status.dataset;
  if (form.of.value === 'all') return `All ${matching ? `${matching} ` : ''}matching keys are selected.`;
  if (ticked === 0) return 'Select keys to change them together.';
  if (ticked === all) return `All ${page} on this page are selected.`;
  return ticked === 1 ? '1 key is selected.' : `${ticked} keys are selected.`;
}

function show() {
  const all = boxes();
  if (form.of.value === 'all') for (const box of all) box.checked = true; // also rows of a refresh
  const ticked = all.filter(({ checked }) => checked).length;
  const text = words(ticked, all.length);
  if (status.textContent.trim() !== text) status.textContent = text;
  form.classList.toggle('some', ticked > 0);
  for (const button of form.querySelectorAll('button')) button.disabled = ticked === 0;
  const whole = ticked > 0 && ticked === all.length;
  for (const link of form.querySelectorAll('[data-select]')) {
    const { select } = link.dataset;
    link.hidden = select === 'none' ? ticked === 0 : select === 'page' ? whole : form.of.value === 'all';
  }
  const box = above();
  if (!box) return;
  box.hidden = false;
  box.checked = whole;
  box.indeterminate = ticked > 0 && !whole;
}

function select(what) {
  form.of.value = what === 'all' ? 'all' : 'selected';
  for (const box of boxes()) box.checked = what !== 'none';
  show();
}

if (form) {
  form.addEventListener('click', (event) => {
    const link = event.target.closest('[data-select]');
    if (!link) return;
    event.preventDefault();
    select(link.dataset.select);
    if (link.hidden) form.querySelector('[data-select]:not([hidden])').focus();
  });
  document.addEventListener('change', ({ target }) => {
    if (target === above()) select(target.checked ? 'page' : 'none');
    else if (target.matches('#keys input[name=id]')) {
      form.of.value = 'selected';
      show();
    }
  });
  document.addEventListener('htmx:after:swap', show);
  addEventListener('pageshow', show); // going back restores ticked boxes
  show();
}
