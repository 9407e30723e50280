package form

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/web/templates"
)

// Bounds of typed lists. The longest valid lists of networks and routes are within them.
const (
	MaxPrefixText = 30_000 // characters
	MaxRoutesText = 20_000 // characters
	maxList       = 4000   // bytes of a list in an address
	maxTimes      = 9999   // repetitions of an item
	maxQuoted     = 50     // characters of an item that an error quotes
)

// ListItem is an item of a typed list, such as "1.5s x3", and its number of repetitions.
type ListItem struct {
	Text  string
	Times int
}

var listItemPattern = regexp.MustCompile(`^(\S+?)(?:\s*[x×]\s*([0-9]{1,4}))?$`)

// ClipList returns a typed list on one line, safe to show. A list that is too long for
// List stays too long.
func ClipList(text string) string {
	return page.Clip(strings.NewReplacer("\r\n", ", ", "\r", ", ", "\n", ", ").Replace(text), maxList+1)
}

// List returns the typed list. It sets an error if the list is empty, is invalid, or has
// more than most items with repetitions. missing is the error of an empty list; sample is
// a valid list.
func (in *Input) List(missing, sample string, most int) []ListItem {
	if len(in.Text) > maxList {
		in.Error = "Enter at most " + page.Number(maxList) + " characters. x30 after an item repeats it."
		return nil
	}
	items, invalid := splitList(in.Text)
	total := 0
	for _, item := range items {
		total += item.Times
	}
	switch {
	case invalid != "":
		in.Error = "“" + page.Clip(invalid, 20) + "” is not valid here. Enter a list such as " + sample + "."
	case total == 0:
		in.Error = missing
	case total > most:
		in.Error = "Enter at most " + page.Number(int64(most)) + " items. This list has " +
			page.Number(int64(total)) + "."
	}
	return items
}

// splitList splits a list at commas, semicolons and line breaks. If an item is invalid,
// it returns the first such item and no list.
func splitList(text string) (items []ListItem, invalid string) {
	for _, part := range strings.FieldsFunc(text, func(c rune) bool {
		return c == ',' || c == ';' || c == '\n'
	}) {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		m := listItemPattern.FindStringSubmatch(part)
		if m == nil {
			return nil, part
		}
		item := ListItem{Text: m[1], Times: 1}
		if m[2] != "" {
			item.Times, _ = strconv.Atoi(m[2]) // the pattern admits only digits
		}
		items = append(items, item)
	}
	return items, ""
}

// JoinCounts writes counts as a list that List reads: "40, 0 x12, 7".
func JoinCounts(counts []int64) string {
	var items []string
	for i := 0; i < len(counts); {
		end := i
		for end < len(counts) && counts[end] == counts[i] && end-i < maxTimes {
			end++
		}
		item := strconv.FormatInt(counts[i], 10)
		if end-i > 1 {
			item += " x" + strconv.Itoa(end-i)
		}
		items = append(items, item)
		i = end
	}
	return strings.Join(items, ", ")
}

// AreaField returns a field for a list of networks.
func AreaField(name, label, hint string, in Input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.AreaField, Hint: hint,
		Sample: "203.0.113.0/24", Max: strconv.Itoa(MaxPrefixText), Field: Field(in)}
}

// Prefixes returns the typed networks, separated by white space, commas or semicolons. An
// address is a network of its own. Prefixes sets an error if one is invalid.
func (in *Input) Prefixes() []netip.Prefix {
	var list []netip.Prefix
	for _, word := range strings.FieldsFunc(in.Text, func(c rune) bool {
		return c == ',' || c == ';' || c <= ' '
	}) {
		p, err := netip.ParsePrefix(word)
		if a, addrErr := netip.ParseAddr(word); err != nil && addrErr == nil && a.Zone() == "" {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			in.Error = "“" + page.Clip(word, maxQuoted) +
				"” is not a network. Enter one such as 203.0.113.0/24 or 2001:db8::/32."
			return nil
		}
		list = append(list, p)
	}
	return list
}

// RoutesField returns the field for the open routes of a plan or a key, one per line.
func RoutesField(hint string, in Input) templates.FormField {
	return templates.FormField{ID: "allow", Label: "Open routes", Kind: templates.AreaField, Hint: hint,
		Sample: "GET /orders/*", Max: strconv.Itoa(MaxRoutesText), Field: Field(in)}
}

// RoutesInput returns the input that Routes reads as allow.
func RoutesInput(allow []route.Pattern) Input {
	lines := make([]string, len(allow))
	for i, p := range allow {
		lines[i] = p.String()
	}
	return Input{Text: strings.Join(lines, "\n")}
}

// Routes returns the typed patterns. It sets an error if one is invalid or there are too
// many.
func (in *Input) Routes() []route.Pattern {
	var allow []route.Pattern
	for line := range strings.Lines(in.Text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := route.Parse(line)
		if err != nil {
			in.Error = "“" + page.Clip(line, maxQuoted) + "”: " + page.Clip(err.Error(), page.MaxName) + "."
			return nil
		}
		allow = append(allow, p)
	}
	if len(allow) > policy.MaxAllow {
		in.Error = "Enter at most " + strconv.Itoa(policy.MaxAllow) + " routes."
	}
	return allow
}
