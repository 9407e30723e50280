//go:build unix

package main

import (
	"testing"

	"tidegate/internal/testing/valkeytest"
)

// What was recorded since the last flush is sent when the environment ends: Lambda warns
// the function, since it has registered an extension.
func TestRecordsAreSentAtTheEnd(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), nil)
	k, secret := f.newKey(t)
	if _, allowed := f.ask(t, []string{
		canaryEvent("x-api-key", secret.Reveal(), canaryAddress)}); allowed != 1 {
		t.Fatal("the call was not allowed")
	}
	recorded := func() int {
		names, err := f.client.Do(t.Context(),
			f.client.B().Keys().Pattern("tg:{*}:"+k.ID+":[mh][0-9]*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if n := recorded(); n != 0 {
		t.Fatalf("%d records before the end: the test does not test what it should", n)
	}
	f.Close()
	if recorded() == 0 {
		t.Errorf("no records after the end; output: %s", f.log.String())
	}
}
