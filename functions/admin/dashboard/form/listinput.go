package form

import (
	"regexp"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
)

// maxList bounds the characters of a list, which travels in the address.
const maxList = 4000

// maxTimes bounds how often one item may stand in a list.
const maxTimes = 9999

// ListItem is an item of a typed list and how often it stands there: "1.5s x3".
type ListItem struct {
	Text  string
	Times int
}

var listItemPattern = regexp.MustCompile(`^(\S+?)(?:\s*[x×]\s*([0-9]{1,4}))?$`)

// ClipList returns a list fit to be shown, on one line; list refuses what was too long.
func ClipList(text string) string {
	return page.Clip(strings.NewReplacer("\r\n", ", ", "\r", ", ", "\n", ", ").Replace(text), maxList+1)
}

// splitList reads items that commas, semicolons or line breaks part. It returns the first
// one that it does not understand.
func splitList(text string) (items []ListItem, odd string) {
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
			item.Times, _ = strconv.Atoi(m[2]) // digits, by the pattern
		}
		items = append(items, item)
	}
	return items, ""
}

// List reads the list that was typed, at most a bound of items in all, and notes if it
// cannot be read.
func (in *Input) List(missing, sample string, most int) []ListItem {
	if len(in.Text) > maxList {
		in.Error = "Type at most " + page.Number(maxList) + " characters; x30 after an item repeats it."
		return nil
	}
	items, odd := splitList(in.Text)
	total := 0
	for _, item := range items {
		total += item.Times
	}
	switch {
	case odd != "":
		in.Error = "“" + page.Clip(odd, 20) + "” cannot be read. Type a list such as " + sample + "."
	case total == 0:
		in.Error = missing
	case total > most:
		in.Error = "This is a list of " + page.Number(int64(total)) + ". It may hold at most " +
			page.Number(int64(most)) + "."
	}
	return items
}

// JoinCounts writes counts as such a list: "40, 0 x12, 7".
func JoinCounts(counts []int64) string {
	var items []string
	for i := 0; i < len(counts); {
		same := i
		for same < len(counts) && counts[same] == counts[i] && same-i < maxTimes {
			same++
		}
		item := strconv.FormatInt(counts[i], 10)
		if same-i > 1 {
			item += " x" + strconv.Itoa(same-i)
		}
		items, i = append(items, item), same
	}
	return strings.Join(items, ", ")
}
