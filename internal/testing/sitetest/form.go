package sitetest

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// LimitsForm returns the limits page's form with limits in words.
func LimitsForm(version string, limits ...string) url.Values {
	return url.Values{
		"version": {version}, "action": {"save"}, "lasts": {"never"}, "reason": {"test"},
		"limits": {strings.Join(limits, "\n")},
	}
}

// With sets fields of a form, given as alternating names and values.
func With(form url.Values, fields ...string) url.Values {
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

// AddressesIn returns every address in a page's links, scripts, styles and forms.
func AddressesIn(page string) []string {
	var all []string
	for _, m := range addressInPage.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// Finish continues a change of many keys to its end as a browser without scripts does, and
// returns its last page, or the list of keys with its message.
func (s *Site) Finish(page Reply) (last Reply, steps int) {
	s.T.Helper()
	for ; page.StatusCode == http.StatusOK && !strings.Contains(page.Body, "Finished."); steps++ {
		if steps > 50 {
			s.T.Fatal("the change does not end")
		}
		page = s.Post("/keys/bulk", HiddenIn(page.Body))
	}
	if page.StatusCode == http.StatusSeeOther {
		page = s.Get(page.Header.Get("Location")).Wants(s.T, http.StatusOK)
	}
	return page, steps
}

// UndoOn requests the undo that a page offers.
func (s *Site) UndoOn(path string) Reply {
	s.T.Helper()
	page := s.Get(path).Wants(s.T, http.StatusOK)
	m := UndoInPage.FindStringSubmatch(page.Body)
	if m == nil {
		s.T.Fatalf("%s offers no undo:\n%s", path, page.Body)
	}
	return s.Post(m[1], nil)
}

// HiddenIn returns the hidden fields of a page's form.
func HiddenIn(page string) url.Values {
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		if m[1] != "next" { // the theme's form has it
			form.Add(m[1], html.UnescapeString(m[2]))
		}
	}
	return form
}

// FormIn returns the values of the page's form.
func FormIn(page string) url.Values {
	form := HiddenIn(page)
	for _, m := range inputField.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	for _, m := range areaField.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	for _, m := range selectField.FindAllStringSubmatch(page, -1) {
		if chosen := chosenOption.FindStringSubmatch(m[2]); chosen != nil {
			form.Set(m[1], html.UnescapeString(chosen[1]))
		}
	}
	return form
}

var (
	inputField   = regexp.MustCompile(`<input id="[^"]+" name="([^"]+)" value="([^"]*)"`)
	areaField    = regexp.MustCompile(`<textarea id="[^"]+" name="([^"]+)"[^>]*>([^<]*)</textarea>`)
	selectField  = regexp.MustCompile(`<select id="[^"]+" name="([^"]+)"[^>]*>(.*?)</select>`)
	chosenOption = regexp.MustCompile(`<option value="([^"]*)" selected`)
)

// UndoInPage matches the address of an undo.
var UndoInPage = regexp.MustCompile(`action="(/audit/[^"]+/undo)"`)

// TokenFields returns the form of a new machine token.
func TokenFields(name, scope, lasts string) url.Values {
	return url.Values{"name": {name}, "scope": {scope}, "lasts": {lasts}}
}

// TokenInPage matches a machine token's text.
var TokenInPage = regexp.MustCompile(`tga_[0-9A-Za-z]{49}`)

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
