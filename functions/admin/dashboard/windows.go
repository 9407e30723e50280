package dashboard

import (
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// keyRow is a key and what a call of it would get now.
func (d *dashboard) keyRow(s app.Subject, query string) templates.KeyRow {
	row := templates.KeyRow{
		ID:       s.ID,
		Name:     page.Clip(s.Name, page.MaxName),
		Address:  d.Path("/keys/"+s.ID) + query,
		Plan:     page.Clip(s.Plan, page.MaxName),
		Badges:   changes.Badges(s),
		Readable: s.Status != policy.Unreadable,
	}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, page.Clip(tag, policy.MaxTagLen))
	}
	for _, u := range s.Now.Limits {
		row.Windows = append(row.Windows, changes.Window(u))
	}
	return row
}
