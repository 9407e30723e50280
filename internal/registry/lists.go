package registry

import (
	"strconv"
	"strings"

	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// A bucket has one set of all entries of its lists. An entry is the name of the list, the
// lower-case name of the subject and its id, with zero bytes between them. So the entries
// of a list are in the order of names.
const (
	allKeys   = "all"
	allGroups = "groups" // the id is the group's name
	allTokens = "token"  // without names
)

func planList(number int) string { return "plan:" + strconv.Itoa(number) }

func tagList(tag string) string { return "tag:" + tag }

// The lists of groups are in the order of the groups, like allGroups.
const groupLists = "group:"

func groupList(name string) string { return groupLists + member(name, name) }

// member returns an entry without its list.
func member(name, id string) string { return strings.ToLower(name) + "\x00" + id }

// memberID returns the id in a member.
func memberID(member string) string { return member[strings.LastIndexByte(member, 0)+1:] }

// lists returns the entries of lists that a record has.
func lists(record string, content []byte) []string {
	switch {
	case strings.HasPrefix(record, groupPrefix):
		_, name := policyset.GroupReset(content)
		return []string{allGroups + "\x00" + member(name, name)}
	case strings.HasPrefix(record, tokenPrefix):
		return []string{allTokens + "\x00" + member("", record)}
	}
	k, _, err := policyset.DecodeRecord(record, 0, content)
	if err != nil { // it is listed, so that somebody can delete it
		k = policy.Key{ID: record, Name: record}
	}
	entries := listsOf(k)
	for i, list := range entries {
		entries[i] = list + "\x00" + member(k.Name, k.ID)
	}
	return entries
}

// listsOf names the lists that k belongs in.
func listsOf(k policy.Key) []string {
	in := []string{allKeys}
	if k.PlanNumber > 0 {
		in = append(in, planList(k.PlanNumber))
	}
	if k.Group != "" {
		in = append(in, groupList(k.Group))
	}
	if k.Override != nil {
		in = append(in, string(Overridden))
		if policy.DenyNothing(k.Override.Limits) {
			in = append(in, string(Shadowed))
		}
	}
	if k.Status == policy.Revoked {
		in = append(in, string(Revoked))
	}
	if !k.Expires.IsZero() {
		in = append(in, string(Expiring))
	}
	for _, tag := range k.Tags {
		in = append(in, tagList(tag))
	}
	return in
}

// shadowLists names the lists that have the keys of Shadowed. If a plan without an enforced
// limit is the default for tokens or addresses, that is the list of all keys: the plan's
// list lacks callers who have it by default.
func shadowLists(set *policy.Set) []string {
	names := []string{string(Shadowed)}
	for _, p := range set.Plans {
		switch {
		case !policy.DenyNothing(p.Limits):
		case p.Name == set.TokenPlan || p.Name == set.AddressPlan:
			return []string{allKeys}
		default:
			names = append(names, planList(p.Number))
		}
	}
	return names
}
