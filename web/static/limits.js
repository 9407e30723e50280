// Adds a limit to a form's list without asking the server, and removes what the server said
// about a limit that is edited.

function add(list, button) {
  const last = [...list.querySelectorAll('.limit-field')].at(-1);
  const row = last.cloneNode(true);
  const count = list.querySelectorAll('.limit-field').length;
  for (const element of row.querySelectorAll('[id], [for]')) {
    for (const name of ['id', 'for']) {
      const value = element.getAttribute(name);
      if (value) element.setAttribute(name, value.replace(/-\d+/, `-${count}`));
    }
  }
  const input = row.querySelector('input');
  input.name = input.name.replace(/\[\d+\]/, `[${count}]`);
  input.value = '';
  row.querySelector('label').textContent = row.querySelector('label').textContent.replace(/\d+$/, count + 1);
  last.after(row);
  clear(row);
  if (count + 1 >= Number(list.dataset.most)) button.remove();
  input.focus();
}

function clear(row) {
  const input = row.querySelector('input');
  input.removeAttribute('aria-invalid');
  input.removeAttribute('aria-describedby');
  row.querySelector('.wrong')?.remove();
  row.querySelector('output').textContent = '';
}

document.addEventListener('input', (event) => {
  const row = event.target.closest('#form .limit-field');
  if (row) clear(row);
});

document.addEventListener('click', (event) => {
  const button = event.target.closest('#form button[value^="add:"]');
  if (!button) return;
  event.preventDefault();
  add(button.closest('.limits'), button);
});
