package subscription

import "testing"

func TestAFreeIDIsTheFirstGap(t *testing.T) {
	for _, tt := range []struct {
		name  string
		from  string
		taken []string
		more  bool
		want  string
	}{
		{"nobody is there", "004711", nil, false, "004711"},
		{"the first is free", "004711", []string{"004712"}, true, "004711"},
		{"a gap among them", "004711", []string{"004711", "004712", "004714"}, true, "004713"},
		{"longer ids in between are none of ours", "004711", []string{"004711", "0047110", "00471199", "004712", "0047121", "004714"}, true, "004713"},
		{"the last of them is followed by nobody", "004711", []string{"004711", "004712"}, false, "004713"},
		{"nobody knows what follows the last of them", "004711", []string{"004711", "004712"}, true, ""},
		{"digits run out", "999998", []string{"999998", "999999"}, false, ""},
		{"zeros are kept", "000009", []string{"000009"}, false, "000010"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := FreeID(tt.from, tt.taken, tt.more); got != tt.want {
				t.Errorf("FreeID(%s, %v, %v) = %q; want %q", tt.from, tt.taken, tt.more, got, tt.want)
			}
		})
	}
}
