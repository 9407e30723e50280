package auditlog

import (
	"cmp"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// sentences has what an entry says by its action, with % for its subject.
var sentences = map[string]string{
	audit.KeyCreate: "% created", audit.KeyAdopt: "% registered", audit.KeyEdit: "% edited",
	audit.KeyPlan: "Plan of % changed", audit.KeyOverride: "Limits of % overridden",
	audit.KeyOverrideEnd: "Override of % ended", audit.KeyRevoke: "% revoked",
	audit.KeyUnrevoke: "% restored", audit.KeyRotate: "Secret of % rotated",
	audit.KeyExpire: "Previous secret of % expired",
	audit.KeyBan:    "% banned", audit.KeyUnban: "% unbanned", audit.KeyReset: "Counts of % reset",
	audit.KeyRevert: "Changes of % undone", audit.KeyDelete: "% deleted",
	audit.GroupReset: "Counts of group % reset", audit.GroupOverride: "Limits of group % overridden",
	audit.GroupEnd: "Override of group % ended", audit.GroupBilling: "Billing day of group % set",
	audit.PolicySave:   "% changed",
	audit.PolicyRepair: "% repaired", audit.TokenCreate: "Token % created",
	audit.TokenRevoke: "Token % revoked", audit.Login: "% logged in",
	audit.LoginRefused: "Log-in of % refused", audit.JobStart: "Started: %", audit.JobStop: "Stopped: %",
	audit.JobResume: "Continued: %", audit.JobEnd: "Ended: %",
	audit.JournalRestore: "Restored from the journal",
}

// fieldWords has the names of a key's fields as a sentence begins with them.
var fieldWords = map[string]string{
	"name": "Name", "tags": "Tags", "plan": "Plan", "group": "Group", "open routes": "Open routes",
	"status": "Status", "override": "Override", "expires": "Expiry", "banned until": "Ban",
}

// sentence returns what an entry says, and the name of its subject, which replaces the %.
// An edit or an undo of one field names the field.
func sentence(e audit.Entry, changed []templates.Change) (text, subject string) {
	text, subject = cmp.Or(sentences[e.Action], e.Action+" of %"), subjectWords(e)
	switch {
	case e.Action == audit.PolicySave, e.Action == audit.PolicyRepair:
		subject = ownerOf(changed)
		if len(changed) == 1 {
			text = cmp.Or(wholeText(changed[0]), text)
		}
	case e.Action == audit.LoginRefused && e.Name == "":
		text = "Log-in refused"
	case e.Subject == policyset.SetID: // of a group
		subject = page.Clip(e.Name, page.MaxName)
	case e.Action != audit.KeyEdit && e.Action != audit.KeyRevert || len(changed) != 1:
	case fieldWords[changed[0].What] != "":
		text = fieldWords[changed[0].What] + " of % changed"
		if e.Action == audit.KeyRevert {
			text = fieldWords[changed[0].What] + " of % undone"
		}
	}
	return text, subject
}

// wholeText is the sentence for a plan or a route that is created or deleted; empty for
// other changes.
func wholeText(c templates.Change) string {
	none := wording.OrNone("")
	switch {
	case c.Of != c.What:
		return ""
	case c.Before == none:
		return "% created"
	case c.After == none:
		return "% deleted"
	}
	return ""
}

// ownerOf names the plan or the route that all changes of the policies are of.
func ownerOf(changed []templates.Change) string {
	owner := ""
	for i, c := range changed {
		of := cmp.Or(c.Of, c.What)
		if i > 0 && of != owner {
			return "Policies"
		}
		owner = of
	}
	if owner == "" {
		return "Policies"
	}
	return page.Clip(strings.ToUpper(owner[:1])+owner[1:], page.MaxName)
}

// Words returns what an entry with these changes says, such as "Override of acme undone".
func Words(e audit.Entry, changed []templates.Change) string {
	text, subject := sentence(e, changed)
	return strings.Replace(text, "%", subject, 1)
}
