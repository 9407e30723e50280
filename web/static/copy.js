// A button with data-copy copies the field of that id, one with data-copy-text that text.
// Without scripts they stay hidden: the text can be selected.

const buttons = '[data-copy], [data-copy-text]';

function show() {
  for (const button of document.querySelectorAll(buttons)) button.hidden = false;
}

document.addEventListener('click', async ({ target }) => {
  const button = target.closest(buttons);
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  field?.select();
  try {
    await navigator.clipboard.writeText(field?.value ?? button.dataset.copyText);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Copy with the keyboard'; // a field's text is selected
  }
});

show();
document.addEventListener('htmx:after:swap', show);

// The back button may restore a page from memory. It then has no secret.
addEventListener('pagehide', () => {
  for (const field of document.querySelectorAll('.secret input')) field.setAttribute('value', '');
});
