package server

import (
	"strings"
)

// browserName returns the browser and system of a User-Agent.
func browserName(agent string) string {
	browser := firstMatch(agent, "another program", [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"},
		{"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := firstMatch(agent, "", [][2]string{
		{"Windows", " on Windows"}, {"Android", " on Android"}, {"iPhone", " on iPhone"},
		{"iPad", " on iPad"},
		{"Mac OS X", " on macOS"}, {"Linux", " on Linux"},
	})
	return browser + system
}

// firstMatch returns the name of the first mark in a text.
func firstMatch(text, otherwise string, marks [][2]string) string {
	for _, m := range marks {
		if strings.Contains(text, m[0]) {
			return m[1]
		}
	}
	return otherwise
}
