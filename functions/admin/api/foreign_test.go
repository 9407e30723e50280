package api

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/apikey"
)

// A key with a given value is made once, and neither an answer nor the log repeats the
// value, whatever is wrong with it.
func TestForeignKey(t *testing.T) {
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	s := newService(t)
	body := map[string]any{"name": "old", "plan": "free", "value": value}
	s.post("/keys", body).wants(http.StatusUnprocessableEntity, "body.value", "FOREIGN_KEYS=true")
	s.keys.ForeignKeys = true
	made := s.post("/keys", body).wants(http.StatusCreated, `"foreign":true`)
	id := made.stringAt("key", "id")
	want, err := apikey.NewKey(testPepper).Foreign(value)
	if err != nil || id != want.ID() || strings.Contains(made.text, `"secret"`) {
		t.Errorf("%v %s", err, made.text)
	}
	again := s.post("/keys", body).wants(http.StatusConflict, id)
	if at := again.header.Get("Location"); at != Prefix+"/keys/"+id {
		t.Errorf("Location %q", at)
	}
	for rejected, message := range map[string]string{
		value[:19]: "20 to 256", value + " x": "spaces", value + "\n": "spaces", value + ",": "commas",
		"tg_" + value: "Tidegate", strings.Repeat(value, 7): "20 to 256",
		strings.Repeat(value, 2000): "",
	} {
		body["value"] = rejected
		answer := s.post("/keys", body)
		if len(rejected) < 1000 {
			answer.wants(http.StatusUnprocessableEntity, "body.value", message)
		}
		if answer.status < 400 || strings.Contains(answer.text, rejected) {
			t.Errorf("%d %.200s", answer.status, answer.text)
		}
	}
	if text := s.get("/keys/"+id).wants(http.StatusOK, `"foreign":true`).text; strings.Contains(text, value) {
		t.Error("the value is told")
	}
	if strings.Contains(s.log.String(), value[:19]) {
		t.Error("the value is logged")
	}
	s.do(http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"grace": "1h"},
		header{"If-Match": `"1"`}).wants(http.StatusCreated, `"secret":"tg_live_`+id)
	if text := s.get("/keys/" + id).text; strings.Contains(text, "foreign") {
		t.Errorf("rotated, and still foreign: %s", text)
	}
}
