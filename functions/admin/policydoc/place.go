package policydoc

import (
	"regexp"
	"strconv"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// placeOfLimit matches the path of a field of a limit in a policy set.
var placeOfLimit = regexp.MustCompile(
	`^(?:(plans|routes)\[(\d+)\]\.|(perIP|global)\.|groupOverrides\.(.+)\.)(\w+)\[(\d+)\]`,
)

// LimitAt names the limit that a field of a policy set belongs to, such as "plan starter:
// 30 per 10 seconds". It reports false for any other field.
func LimitAt(set *policy.Set, field string) (words string, found bool) {
	m := placeOfLimit.FindStringSubmatch(field)
	if m == nil || set == nil {
		return "", false
	}
	of, _ := strconv.Atoi(m[2])
	at, _ := strconv.Atoi(m[6])
	var owner string
	var limits []limiter.Limit
	switch {
	case m[3] == "perIP":
		owner, limits = "each address", set.PerIP.Limits
	case m[3] == "global":
		owner, limits = "all callers", set.Global.Limits
	case m[4] != "":
		owner, limits = "override of group "+m[4], set.GroupOverrides[m[4]].Limits
	case m[1] == "plans" && of < len(set.Plans):
		p := set.Plans[of]
		owner = "plan " + p.Name
		limits = map[string][]limiter.Limit{"limits": p.Limits, "perGroup": p.PerGroup}[m[5]]
	case m[1] == "routes" && of < len(set.Routes):
		r := set.Routes[of]
		owner = "rule " + r.Name
		limits = map[string][]limiter.Limit{"perKey": r.PerKey, "perIP": r.PerIP, "shared": r.Shared}[m[5]]
	}
	if owner == "" || at >= len(limits) {
		return "", false
	}
	return owner + ": " + Rate(limits[at]), true
}
