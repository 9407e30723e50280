package auditlog

import (
	"cmp"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// sentences has what an entry says by its action, with % for its subject.
var sentences = map[string]string{
	registry.KeyCreate: "% created", registry.KeyAdopt: "% registered", registry.KeyEdit: "% edited",
	registry.KeyPlan: "Plan of % changed", registry.KeyOverride: "Limits of % overridden",
	registry.KeyOverrideEnd: "Override of % ended", registry.KeyRevoke: "% revoked",
	registry.KeyUnrevoke: "% restored", registry.KeyRotate: "Secret of % rotated",
	registry.KeyExpire: "Previous secret of % expired",
	registry.KeyBan:    "% banned", registry.KeyUnban: "% unbanned", registry.KeyReset: "Counts of % reset",
	registry.KeyDelete: "% deleted", registry.GroupReset: "Counts of group % reset",
	registry.GroupOverride: "Limits of % overridden", registry.GroupEnd: "Override of % ended",
	registry.GroupBilling: "Billing day of % set",
	registry.PolicySave:   "% changed", registry.TokenCreate: "Token % created",
	registry.TokenRevoke: "Token % revoked", registry.KeyRevert: "Changes of % undone",
	registry.PolicyRevert: "Changes of % undone",
}

// fieldWords has the names of a key's fields as a sentence begins with them.
var fieldWords = map[string]string{
	"name": "Name", "tags": "Tags", "plan": "Plan", "group": "Group", "open routes": "Open routes",
	"status": "Status", "override": "Override", "expires": "Expiry", "banned until": "Ban",
}

// The beginnings of records that are no key.
const (
	tokenPrefix = "token:"
	groupPrefix = "group-"
)

func isGroup(s registry.AuditSubject) bool { return strings.HasPrefix(s.Record, groupPrefix) }

// SubjectsOf returns the first records that an entry is about, and how many more there are.
// A change of keys may also make the records of their groups.
func SubjectsOf(e registry.AuditEntry) (subjects []registry.AuditSubject, more int64) {
	for _, s := range e.Subjects {
		if e.Action == registry.GroupReset || !isGroup(s) {
			subjects = append(subjects, s)
		}
	}
	return subjects, int64(e.Items - len(e.Subjects))
}

// sentence returns what an entry says, and the name of its subject, which replaces the %.
// An edit or an undo of one field names the field.
func sentence(e changes.Entry) (text, subject string) {
	text = cmp.Or(sentences[e.Action], e.Action+" of %")
	subjects, more := SubjectsOf(e.AuditEntry)
	switch {
	case e.Void > 0:
		return "Change " + strconv.FormatUint(e.Void, 10) + " declared nothing", ""
	case e.Number == 1:
		return "Log begun", ""
	case e.ID == "":
		return "Missing or damaged", ""
	case len(subjects) == 0:
		return strings.ReplaceAll(text, "%", "nothing"), ""
	case len(subjects) > 1:
		return text, app.KeyCount(int64(len(subjects)) + more)
	}
	subject = subjectName(subjects[0])
	switch {
	case subjects[0].Record == app.PolicyRecord:
		subject = page.Clip(cmp.Or(ownerOf(e.Changes), "policies"), page.MaxName)
		if e.Action != registry.PolicySave {
			break
		}
		subject = strings.ToUpper(subject[:1]) + subject[1:]
		if len(e.Changes) == 1 {
			text = cmp.Or(wholeText(e.Changes[0]), text)
		}
	case e.Action != registry.KeyEdit && e.Action != registry.KeyRevert || len(e.Changes) != 1:
	case fieldWords[e.Changes[0].What] != "":
		text = fieldWords[e.Changes[0].What] + " of % changed"
		if e.Action == registry.KeyRevert {
			text = fieldWords[e.Changes[0].What] + " of % undone"
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

// ownerOf returns the plan, the route or the group that all changes of the policies are of;
// empty for several.
func ownerOf(changed []templates.Change) string {
	owner := ""
	for i, c := range changed {
		of := cmp.Or(c.Of, c.What)
		if i > 0 && of != owner {
			return ""
		}
		owner = of
	}
	return owner
}

// Words returns what an entry says, such as "Override of acme undone".
func Words(e changes.Entry) string {
	text, subject := sentence(e)
	return strings.Replace(text, "%", subject, 1)
}

// SubjectOf returns the name of what an entry is about.
func SubjectOf(e changes.Entry) string {
	_, subject := sentence(e)
	return subject
}
