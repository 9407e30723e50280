package dashboard

import (
	"context"
	"net/http"

	"tidegate/functions/admin/access"
	"tidegate/internal/audit"
)

// loginSubject is what logins go by in the audit.
const loginSubject = "login"

// tellLogin tells of a login before it counts: nobody gets in untold.
func (d *dashboard) tellLogin(ctx context.Context, actor access.Actor) error {
	return d.Keys.Audit().Append(ctx, audit.Entry{
		By: audit.Actor{Kind: string(actor.Kind), Name: actor.String()}, Action: "login", Subject: loginSubject, Name: actor.Name,
	})
}

// tellRefused tells of a login that was refused, unless there were many of late. Only names that are somebody's are told: people type passwords in
// the
// wrong field. When it cannot be told, the login is refused all the same.
func (d *dashboard) tellRefused(r *http.Request, name string) {
	d.Log.Warn("login refused")
	if _, known := d.users.Find(name); !known {
		name = ""
	}
	tell, err := d.Logins.Tell(r.Context())
	if tell && err == nil {
		err = d.Keys.Audit().Append(r.Context(), audit.Entry{
			By: audit.Actor{Kind: "system", Name: loginSubject}, Action: "login.refused", Subject: loginSubject, Name: name,
		})
	}
	if err != nil {
		d.Log.Error("tell of refused login", "error", err)
	}
}
