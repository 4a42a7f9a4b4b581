package localstack

import (
	"strings"
	"testing"
)

func TestCheckPasswords(t *testing.T) {
	for _, tt := range []struct{ user, password, want string }{
		{"svc", "a b!c", ""},
		{"svc", "", "the password of svc is empty"},
		{"svc", `a"b`, "holds a quote"},
		{"svc", "a\nb", "holds a quote"},
		{"a b", "x", "is not made of"},
	} {
		err := checkPasswords(map[string]string{tt.user: tt.password})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.password, err, tt.want)
		}
		if err != nil && tt.password != "" && strings.Contains(err.Error(), tt.password) && tt.user == "svc" {
			t.Errorf("the password is in %v", err)
		}
	}
}

func TestUsersLogIn(t *testing.T) {
	k := kafka{passwords: map[string]string{"b": "2", "a": "1"}}
	if got := k.login(); !strings.Contains(got, `username="a" password="1" user_a="1" user_b="2";`) {
		t.Errorf("got %s", got)
	}
	if got := (kafka{}).login(); got != "" {
		t.Errorf("got %s", got)
	}
}
