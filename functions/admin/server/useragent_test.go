package server

import "testing"

func TestAgentWords(t *testing.T) {
	for agent, want := range map[string]string{
		"": "another program",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.4 Safari/605.1.15": "Safari on macOS",
		"Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":   "Edge on Windows",
		"Mozilla/5.0 (Linux; Android 10; K) Chrome/140.0.0.0 Mobile Safari/537.36":     "Chrome on Android",
		"curl/8.5.0": "curl",
	} {
		if got := browserName(agent); got != want {
			t.Errorf("%s: %q, want %q", agent, got, want)
		}
	}
}
