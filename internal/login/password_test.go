package login

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestHashPassword_Matches(t *testing.T) {
	hash, err := HashPassword(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the hash is %s; want its parameters in front", hash)
	}
	again, err := HashPassword(t.Context(), "correct horse")
	if err != nil || again == hash {
		t.Errorf("two hashes of one password are the same (%v): there is no salt", err)
	}
	for password, want := range map[string]bool{"correct horse": true, "Correct horse": false, "correct hors": false, "": false} {
		if same, old, err := matches(t.Context(), hash, password); err != nil || same != want || old {
			t.Errorf("%q: %v, old %v, %v; want %v", password, same, old, err, want)
		}
	}
	if same, _, err := matches(t.Context(), dummyHash, ""); err != nil || same {
		t.Errorf("the dummy hash matches: %v, %v", same, err)
	}
}

func TestDummyHash_HasCurrentCost(t *testing.T) {
	p, salt, sum, err := decodeHash(dummyHash)
	if err != nil || p != currentParams || len(salt) != saltBytes || len(sum) != hashBytes {
		t.Errorf("it is %+v with %d and %d bytes, %v", p, len(salt), len(sum), err)
	}
}

func TestMatches_OldParameters(t *testing.T) {
	cheap := parameters{memoryKiB: 64, passes: 1, lanes: 1}
	salt := []byte("0123456789abcdef")
	sum, err := cheap.hash(t.Context(), "correct horse", salt, hashBytes)
	if err != nil {
		t.Fatal(err)
	}
	if same, old, err := matches(t.Context(), cheap.encode(salt, sum), "correct horse"); err != nil || !same || !old {
		t.Errorf("known %v, old %v, %v; want both", same, old, err)
	}
}

func TestMatches_InvalidHash(t *testing.T) {
	salt, sum := make([]byte, saltBytes), make([]byte, hashBytes)
	for _, hash := range []string{
		"", "plain", "$argon2i$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + strings.Repeat("A", 43), strings.Replace(dummyHash, "v=19", "v=16", 1),
		parameters{memoryKiB: 1 << 30, passes: 1, lanes: 1}.encode(salt, sum), parameters{memoryKiB: 64, passes: 1 << 20, lanes: 1}.encode(salt, sum),
		parameters{memoryKiB: 64, passes: 0, lanes: 1}.encode(salt, sum), parameters{memoryKiB: 64, passes: 1, lanes: 0}.encode(salt, sum),
		currentParams.encode(nil, sum), currentParams.encode(salt, nil), dummyHash + "$", dummyHash[:len(dummyHash)-1] + "!",
	} {
		if same, _, err := matches(t.Context(), hash, ""); err == nil || same {
			t.Errorf("%q: known %v, %v; want an error", hash, same, err)
		}
	}
}

func TestHashPassword_QueueIsCancellableAndBounded(t *testing.T) {
	// The places are taken here, as if by others.
	for range maxConcurrentHashes {
		hashSlots <- struct{}{}
	}
	free := func() {
		for range maxConcurrentHashes {
			<-hashSlots
		}
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, err := HashPassword(gone, "correct horse"); !errors.Is(err, context.Canceled) {
		t.Errorf("who hung up gets %v", err)
	}
	hashesInUse.Add(maxConcurrentHashes + maxQueuedHashes)
	if _, err := HashPassword(t.Context(), "correct horse"); !errors.Is(err, errBusy) {
		t.Errorf("who finds the line full gets %v; want to be told", err)
	}
	hashesInUse.Add(-maxConcurrentHashes - maxQueuedHashes)
	free()
	if _, err := HashPassword(t.Context(), "correct horse"); err != nil || hashesInUse.Load() != 0 {
		t.Errorf("afterwards: %v, %d in use", err, hashesInUse.Load())
	}
}

func TestNewPassword_IsReadableAndAccepted(t *testing.T) {
	seen := map[string]bool{}
	letters := map[rune]bool{}
	for range 200 {
		password := NewPassword()
		seen[password] = true
		for _, r := range password {
			letters[r] = true
		}
		if strings.ContainsAny(password, "ilo01ILO ") || len(password) != 19 || CheckPassword(password, "asha") != nil {
			t.Errorf("%q is not fit", password)
		}
	}
	if len(seen) != 200 || len(letters) != len(readable)+1 {
		t.Errorf("%d of 200 differ, of %d characters", len(seen), len(letters))
	}
}

func TestFoldUsername(t *testing.T) {
	for typed, want := range map[string]string{
		"asha": "asha", " Asha.Rao@Cable-1.in ": "asha.rao@cable-1.in", "a_b": "a_b", "ab": "", "": "", "as ha": "", "आशा": "", "asha\x00": "",
		strings.Repeat("a", 64): strings.Repeat("a", 64), strings.Repeat("a", 65): "", "a'b--": "", "ＡＳＨＡ": "",
	} {
		if got, ok := FoldUsername(typed); got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", typed, got, ok, want)
		}
	}
}
