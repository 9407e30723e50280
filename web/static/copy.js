// A button with data-copy copies the field with that id, a button with data-copy-text
// that text. Without scripts the buttons stay hidden, and users select the text.

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
    button.textContent = 'Copy with the keyboard'; // the field's text is selected
  }
});

show();
document.addEventListener('htmx:after:swap', show);

// The back button may restore a page from memory, so secrets are cleared on leaving it.
addEventListener('pagehide', () => {
  for (const field of document.querySelectorAll('.secret input')) field.setAttribute('value', '');
});
