package policydoc

import (
	"bytes"
	"fmt"
	"net/netip"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

const header = `# The policies of Tidegate, version %d: plans, route rules and what holds for all callers.
#
# A limit is so many calls in any window: 100 per 10 seconds. It counts exactly unless
# something follows, with commas between: estimate, token bucket or fixed window for
# another algorithm; denied calls count; 5,000 slots. A calendar needs a fixed window:
# 1,000 per calendar month (Europe/Berlin), fixed window. Field by field a limit is
# {requests: 100, window: 10s}, with algorithm, countDenied, slots, calendar and zone
# where they are wanted. Denied calls can count on limits of each caller only.
#
# What is left out of the file is removed when it is imported. To rename a plan write its
# old name beside it: was. Try an import first: a dry run shows every difference. The
# version says what the file was made of; an import based on an older one is refused.

`

// note explains a section.
func note(section string) string {
	switch section {
	case "plans":
		return "Keys have a plan. degraded says what becomes of calls while Valkey is away: closed, open, " +
			"or local with a share in percent."
	case "routes":
		return "Of the rules that match a call the most specific wins; GET covers HEAD unless a rule names " +
			"HEAD. " +
			"A call takes its cost, 1 if none is given; of cost 0 it is not limited.\n" +
			"# sharedLease is for shared what lease is for global. settleMax is the most that settling a " +
			"call charges to limits that callers share,\n" +
			"# 10 times the cost if none is given."
	case "perIP":
		return "Limits per client address."
	case "global":
		return "Global limits. With a lease, such as 1s, environments take shares of them " +
			"for so long and ask less often."
	case "deny":
		return "Addresses that are refused."
	case "allow":
		return "When there are any, all other addresses are refused."
	case "exempt":
		return "Addresses that are not limited."
	case "tokenPlan":
		return "The plan of tokens that name none; addressPlan is that of callers known by address. " +
			"Without one they are refused."
	case "bans":
		return "So many denied calls in a window ban for base, then for twice as long each time, up to cap."
	}
	return ""
}

// Write returns the Set as a file.
func Write(s *policy.Set) ([]byte, error) {
	var root yaml.Node
	if err := root.Encode(documentOf(s)); err != nil {
		return nil, fmt.Errorf("write policy file: %w", err)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if text := note(root.Content[i].Value); text != "" {
			root.Content[i].HeadComment = "\n# " + text
		}
	}
	quoteMerge(&root)
	var b bytes.Buffer
	fmt.Fprintf(&b, header, s.Version)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, fmt.Errorf("write policy file: %w", err)
	}
	return b.Bytes(), nil
}

// quoteMerge makes the text << a text: the encoder writes it with a tag, which no file
// has.
func quoteMerge(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "<<" {
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quoteMerge(child)
	}
}

func documentOf(s *policy.Set) document {
	d := document{
		Version: s.Version, PerIP: scopeOf(s.PerIP), Global: scopeOf(s.Global), Deny: networks(s.Deny),
		Allow:     networks(s.Allow),
		Exempt:    networks(s.Exempt),
		TokenPlan: s.TokenPlan, AddressPlan: s.AddressPlan,
	}
	for _, p := range s.Plans {
		d.Plans = append(d.Plans, plan{
			Name: p.Name, Limits: written(p.Limits), Mode: p.Mode, Degraded: p.Degraded, Share: p.Share,
			Candidate: written(p.Candidate),
		})
	}
	for _, r := range s.Routes {
		w := rule{
			Name: r.Name, Pattern: pattern(r.Pattern), Settle: r.Settle, SettleMax: r.SettleMax, Mode: r.Mode,
			PerKey: written(r.PerKey), PerIP: written(r.PerIP), Shared: written(r.Shared),
			SharedLease: duration(r.SharedLease),
		}
		if r.Cost != 1 {
			w.Cost = &r.Cost
		}
		d.Routes = append(d.Routes, w)
	}
	if b := s.Bans; b != nil {
		d.Bans = &bans{Denials: b.Denials, Window: duration(b.Window), Base: duration(b.Base),
			Cap: duration(b.Cap)}
	}
	return d
}

func scopeOf(s policy.Scope) *scope {
	if len(s.Limits) == 0 && s.Mode == "" && s.Lease == 0 {
		return nil
	}
	return &scope{Limits: written(s.Limits), Mode: s.Mode, Lease: duration(s.Lease)}
}

func written(limits []limiter.Limit) []limit {
	return each(limits, func(l limiter.Limit) limit { return limit(l) })
}

func networks(list []netip.Prefix) []network {
	return each(list, func(p netip.Prefix) network { return network(p) })
}
