package policydoc

import (
	"regexp"
	"strconv"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// placeOfLimit matches the path of a field of a limit in a policy set.
var placeOfLimit = regexp.MustCompile(`^(?:plans\[(\d+)\]\.|groupOverrides\.(.+)\.)?limits\[(\d+)\]`)

// LimitAt names the limit that a field of a policy set belongs to, such as "plan starter:
// 30 per 10 seconds". It reports false for any other field.
func LimitAt(set *policy.Set, field string) (words string, found bool) {
	m := placeOfLimit.FindStringSubmatch(field)
	if m == nil || set == nil {
		return "", false
	}
	of, _ := strconv.Atoi(m[1])
	at, _ := strconv.Atoi(m[3])
	var owner string
	var list []limits.Limit
	switch {
	case m[2] != "":
		owner, list = "override of group "+m[2], set.GroupOverrides[m[2]].Limits
	case m[1] == "":
		owner, list = "all callers", set.Limits
	case of < len(set.Plans):
		owner, list = "plan "+set.Plans[of].Name, set.Plans[of].Limits
	}
	if at >= len(list) {
		return "", false
	}
	return owner + ": " + list[at].String(), true
}
