//go:build unix

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/valkey-io/valkey-go"

	"tidegate/local/site"
)

// stepTimeout bounds one step of a task, such as a bulk job on every key.
const stepTimeout = 5 * time.Minute

// operator does tasks in Chromium and counts clicks and fields.
type operator struct {
	ctx    context.Context // of a tab
	client valkey.Client
	base   string // address of the dashboard
	clicks int    // on buttons, links, checkboxes and options
	fields int    // number of fields typed into
}

// step is a part of a task.
type step func(*operator) error

// withOperator serves the dashboard and calls do with an operator who has a tab open.
func withOperator(ctx context.Context, handler http.Handler, client valkey.Client,
	do func(*operator) error) error {
	server := httptest.NewServer(handler)
	defer server.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)); err != nil {
		return fmt.Errorf("start Chromium: %w", err)
	}
	return do(&operator{ctx: ctx, client: client, base: server.URL})
}

// helpers are JavaScript functions that find visible elements by their text, in the open
// dialog if there is one.
const helpers = `
	const root = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
	const usable = (e) => e.checkVisibility() && !e.disabled;
	const label = (e) => (e.getAttribute("aria-label") ?? e.innerText).trim().replace(/\s+/g, " ");
	const named = (all, text) => all.filter(usable).find((e) => label(e) === text) ??
		all.filter(usable).find((e) => label(e).startsWith(text));
	const field = (text) => named([...root.querySelectorAll("label")], text)?.control ??
		named([...root.querySelectorAll("input, select, textarea")], text);
	const enter = (e, value) => {
		e.focus();
		e.value = value;
		for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, { bubbles: true }));
		return true;
	};`

// until evaluates the body of a JavaScript function until it returns true, also across
// page loads.
func (o *operator) until(what, body string) error {
	ctx, cancel := context.WithTimeout(o.ctx, stepTimeout)
	defer cancel()
	script := "(() => { if (document.readyState !== 'complete') return false;" + helpers + body + "})()"
	for {
		done, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if err == nil && done {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waited %s for %s: %w", stepTimeout, what, errors.Join(err, o.describe()))
		}
	}
}

// describe returns what the page shows, as an error.
func (o *operator) describe() error {
	text, err := chromedp.Run(o.ctx, chromedp.Evaluate[string](`location.href + "\n" +
		([...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body).innerText`))
	if err != nil {
		return err
	}
	return fmt.Errorf("the page is %.3000s", text) //nolint:err113 // for people
}

// quoted returns text as a JavaScript string.
func quoted(text string) string {
	script, _ := json.Marshal(text) // a string always encodes
	return string(script)
}

// open goes to a path, as a bookmark does.
func open(path string) step {
	return func(o *operator) error { return chromedp.Do(o.ctx, chromedp.Navigate(o.base+path)) }
}

// click clicks the link, button or checkbox with a text.
func click(text string) step {
	return func(o *operator) error {
		o.clicks++
		return o.until("a button "+text, `const e = named([...root.querySelectorAll(
			"a, button, summary, input[type=checkbox], input[type=radio]")], `+quoted(text)+`) ??
			field(`+quoted(text)+`);
			if (!e) return false; e.click(); return true;`)
	}
}

// first clicks the first visible element of a selector.
func first(selector string) step {
	return func(o *operator) error {
		o.clicks++
		return o.until(selector, `const e = [...document.querySelectorAll(`+quoted(selector)+`)].find(usable);
			if (!e) return false; e.click(); return true;`)
	}
}

// fill types into the field with a label.
func fill(label, text string) step {
	return func(o *operator) error {
		o.fields++
		return o.until("a field "+label, `const e = field(`+quoted(label)+`);
			return !!e && enter(e, `+quoted(text)+`);`)
	}
}

// pick chooses an option, by its text, from the list with a label.
func pick(label, option string) step {
	return func(o *operator) error {
		o.clicks++
		return o.until("a list "+label, `const e = field(`+quoted(label)+`);
			const of = e && [...e.options].find((of) => of.text.startsWith(`+quoted(option)+`));
			return !!of && enter(e, of.value);`)
	}
}

// see waits until the page shows a text.
func see(text string) step {
	return func(o *operator) error {
		return o.until(text, `return document.body.innerText.includes(`+quoted(text)+`);`)
	}
}

// shows waits until the page has an element.
func shows(selector string) step {
	return func(o *operator) error {
		return o.until(selector, `return !!root.querySelector(`+quoted(selector)+`);`)
	}
}

// missing waits until the page has no link or button with a text.
func missing(text string) step {
	return func(o *operator) error {
		return o.until("no "+text, `return !named([...root.querySelectorAll("a, button")], `+quoted(text)+`);`)
	}
}

// edited fills a field with a file of the dashboard in which the text to replaces from.
func edited(label, file, from, to string) step {
	return func(o *operator) error {
		o.fields++
		return o.until("a field "+label, `const e = field(`+quoted(label)+`), r = new XMLHttpRequest();
			r.open("GET", `+quoted(file)+`, false);
			r.send();
			return !!e && r.responseText.includes(`+quoted(from)+`) &&
				enter(e, r.responseText.replace(`+quoted(from)+`, `+quoted(to)+`));`)
	}
}

// search finds a key by its name and opens its page.
func search(name string) step {
	return all(open("/keys"), fill("Name, id or key", name), click("Search"), see(name), click(name),
		see("Recent changes"))
}

// all returns a step that does the steps in order.
func all(steps ...step) step {
	return func(o *operator) error {
		for _, do := range steps {
			if err := do(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// logInAs logs in as a user.
func logInAs(user string) step {
	return all(fill("User", user), fill("Password", site.Password), click("Log in"))
}

// confirm types the number of keys that the form asks for.
func confirm(o *operator) error {
	o.fields++
	return o.until("a number to confirm", `const e = field("Type ");
		return !!e && enter(e, [...document.querySelectorAll("label")].find((l) => l.control === e)
			.innerText.match(/[0-9,]+/)[0]);`)
}

// endSessions ends every session, as expiry does after some hours.
func endSessions(o *operator) error {
	names, err := o.client.Do(o.ctx, o.client.B().Keys().Pattern("tg:session:*").Build()).AsStrSlice()
	if err != nil || len(names) == 0 {
		return errors.Join(err, errNoSession)
	}
	return o.client.Do(o.ctx, o.client.B().Del().Key(names...).Build()).Error()
}

var errNoSession = errors.New("no session to end")
