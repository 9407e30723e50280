package auditlog

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/web/templates"
)

// verifyTimeout bounds a check of the chains, which reads them whole.
const verifyTimeout = 20 * time.Second

// verifyAudit reads every chain. It takes longer than other requests may.
func (d *Pages) verifyAudit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), verifyTimeout)
	defer cancel()
	v, err := d.keys.Audit().Verify(ctx)
	if err != nil {
		d.FailStore(w, r, "verify audit", err)
		return
	}
	d.renderAudit(w, r, verifiedWords(v))
}

func verifiedWords(v audit.Verified) *templates.Verified {
	if v.Good() {
		return &templates.Verified{
			Good: true, Text: "All " + page.Number(v.Entries) +
				" entries are as they were written, in their order.",
		}
	}
	var problems []string
	if n := int64(len(v.Broken)); n > 0 {
		problems = append(
			problems,
			page.Number(n)+" of "+page.Number(v.Entries)+" entries were altered,"+
				" or stand behind one that was altered or taken out",
		)
	}
	if n := int64(len(v.Cut)); n > 0 {
		text := " audit chains are incomplete"
		if n == 1 {
			text = " audit chain is incomplete"
		}
		problems = append(problems, page.Number(n)+text)
	}
	if n := int64(len(v.Unread)); n > 0 {
		problems = append(problems, "older entries of "+page.Number(n)+" of the chains could not be read")
	}
	words := &templates.Verified{Text: strings.Join(problems, "; ") + ":", Broken: slices.Clone(v.Broken)}
	for _, c := range v.Cut {
		words.Broken = append(words.Broken, cutWords(c))
	}
	return words
}

// cutWords says where a chain was cut.
func cutWords(c audit.Cut) string {
	after := "after " + c.Last
	if c.Last == "" {
		after = "chain " + page.Number(int64(c.Bucket))
	}
	if c.Missing == 0 {
		return after + ": no head that fits"
	}
	return after + ": " + page.Number(c.Missing) + " missing"
}
