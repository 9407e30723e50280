package dashboard

import (
	"regexp"
	"strconv"
	"strings"
)

// maxList bounds the characters of a list, which travels in the address.
const maxList = 4000

// maxTimes bounds how often one item may stand in a list.
const maxTimes = 9999

// listItem is an item of a typed list and how often it stands there: "1.5s x3".
type listItem struct {
	text  string
	times int
}

var listItemPattern = regexp.MustCompile(`^(\S+?)(?:\s*[x×]\s*([0-9]{1,4}))?$`)

// clipList returns a list fit to be shown, on one line; list refuses what was too long.
func clipList(text string) string {
	return clip(strings.NewReplacer("\r\n", ", ", "\r", ", ", "\n", ", ").Replace(text), maxList+1)
}

// splitList reads items that commas, semicolons or line breaks part. It returns the first
// one that it does not understand.
func splitList(text string) (items []listItem, odd string) {
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ';' || c == '\n' }) {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		m := listItemPattern.FindStringSubmatch(part)
		if m == nil {
			return nil, part
		}
		item := listItem{text: m[1], times: 1}
		if m[2] != "" {
			item.times, _ = strconv.Atoi(m[2]) // digits, by the pattern
		}
		items = append(items, item)
	}
	return items, ""
}

// list reads the list that was typed, at most a bound of items in all, and notes if it
// cannot be read.
func (in *input) list(missing, sample string, most int) []listItem {
	if len(in.text) > maxList {
		in.wrong = "Type at most " + number(maxList) + " characters; x30 after an item repeats it."
		return nil
	}
	items, odd := splitList(in.text)
	total := 0
	for _, item := range items {
		total += item.times
	}
	switch {
	case odd != "":
		in.wrong = "“" + clip(odd, 20) + "” cannot be read. Type a list such as " + sample + "."
	case total == 0:
		in.wrong = missing
	case total > most:
		in.wrong = "This is a list of " + number(int64(total)) + ". It may hold at most " + number(int64(most)) + "."
	}
	return items
}

// joinCounts writes counts as such a list: "40, 0 x12, 7".
func joinCounts(counts []int64) string {
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
