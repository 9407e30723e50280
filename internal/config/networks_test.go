package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"":               "[]",
		"203.0.113.0/24": "[203.0.113.0/24]",
		"\t203.0.113.7, 2001:db8::/32\n10.0.0.0/8": "[203.0.113.7/32 2001:db8::/32 10.0.0.0/8]",
		"::1":              "[::1/128]",
		"::ffff:192.0.2.1": "[192.0.2.1/32]",
		"0.0.0.0/0,::/0":   "[0.0.0.0/0 ::/0]",
	} {
		got, err := Networks(text)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		" , ":                        "has no network",
		"10.0.0.300/8":               `"10.0.0.300/8", which is no network`,
		"10.0.0.0/33":                `"10.0.0.0/33", which is no network`,
		"10.0.0.0/8;192.0.2.0/24":    `"10.0.0.0/8;192.0.2.0/24", which is no network`,
		"example.com":                `"example.com", which is no network`,
		"fe80::1%eth0":               `"fe80::1%eth0", which is no network`,
		"2001:db8::/129":             `"2001:db8::/129", which is no network`,
		"10.1.2.3/16":                `"10.1.2.3/16", whose address goes beyond its length: write 10.1.0.0/16`,
		"2001:db8::1/32":             "write 2001:db8::/32",
		"::ffff:10.0.0.0/104":        "write it as a network of IPv4",
		"10.0.0.0/8,x,192.0.2.0/24":  `"x", which is no network`,
		"10.0.0.0/8 10.1.2.3/16 y/1": `"y/1", which is no network`,
	} {
		if got, err := Networks(text); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}
