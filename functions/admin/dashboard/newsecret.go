package dashboard

import (
	"net/http"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// handOver leads to the page that shows a new secret.
func (d *dashboard) handOver(w http.ResponseWriter, r *http.Request, k policy.Key, secret string) {
	if err := d.HandOver(r, k.ID, secret); err != nil {
		d.FailStore(w, r, "hand over secret", err)
		return
	}
	http.Redirect(w, r, d.Path("/secrets/"+k.ID), http.StatusSeeOther)
}

// showSecret shows a new secret to who asked for it, once.
func (d *dashboard) showSecret(w http.ResponseWriter, r *http.Request) {
	k, err := d.key(r)
	if err != nil {
		d.FailStore(w, r, "get key", err)
		return
	}
	secret, taken := d.TakeOver(r, k.ID)
	if !taken {
		d.Fail(w, r, page.Problem{
			Status: http.StatusGone, Heading: "This secret was shown once",
			Advice: "It cannot be shown again. Rotate the key for a new one.",
			Action: templates.Choice{Text: "Go to the key", Address: d.keyPath(k)},
		})
		return
	}
	name := page.Clip(k.Name, page.MaxName)
	heading := "The new secret of “" + name + "”"
	if k.Version == 1 {
		heading = "Key created: “" + name + "”"
	}
	advice := []string{"Send it as x-api-key, or as Authorization: Bearer."}
	if k.Grace.After(time.Now()) {
		advice = append(advice, "The old secret works until "+page.Instant(k.Grace).Text+".")
	}
	d.Render(w, r, http.StatusOK, templates.FormOf(templates.FormPage{
		Page: d.Page(r, heading), Trail: d.keyTrail(k), Heading: "Secret of", Name: name,
		Secret: &templates.Secret{Heading: heading, Text: secret, Advice: advice},
	}))
}
