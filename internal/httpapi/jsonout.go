package httpapi

import (
	"strconv"

	"github.com/coaxhq/coax/internal/money"
)

// jsonObject is data that appends itself as JSON, byte for byte as marshal would encode
// it. For the most frequent responses encoding/json's reflection cost more than
// verifying their requests. The struct tags stay the contract: tests compare each
// writer with encoding/json.
type jsonObject interface {
	appendJSON(out []byte) []byte
}

// object writes one JSON object, field by field. Names are ours and need no
// escaping.
type object struct {
	out   []byte
	begun bool
}

func openObject(out []byte) object { return object{out: append(out, '{')} }

func (o *object) close() []byte { return append(o.out, '}') }

func (o *object) name(name string) {
	if o.begun {
		o.out = append(o.out, ',')
	}
	o.begun = true
	o.out = append(o.out, '"')
	o.out = append(o.out, name...)
	o.out = append(o.out, '"', ':')
}

func (o *object) text(name, value string) {
	o.name(name)
	o.out = appendText(o.out, value)
}

// orNull writes a string, or null for nil.
func (o *object) orNull(name string, value *string) {
	o.name(name)
	if value == nil {
		o.out = append(o.out, "null"...)
		return
	}
	o.out = appendText(o.out, *value)
}

func (o *object) number(name string, value int64) {
	o.name(name)
	o.out = strconv.AppendInt(o.out, value, 10)
}

func (o *object) amount(name string, value money.Amount) {
	o.name(name)
	o.out = value.Append(o.out)
}

func (o *object) flag(name string, value bool) {
	o.name(name)
	o.out = strconv.AppendBool(o.out, value)
}

// texts writes a list of strings, which is never null.
func (o *object) texts(name string, values []string) {
	o.name(name)
	o.out = append(o.out, '[')
	for i, value := range values {
		if i > 0 {
			o.out = append(o.out, ',')
		}
		o.out = appendText(o.out, value)
	}
	o.out = append(o.out, ']')
}

// objects writes a list of n objects, which is never null.
func (o *object) objects(name string, n int, write func(i int, one *object)) {
	o.name(name)
	o.out = append(o.out, '[')
	for i := range n {
		if i > 0 {
			o.out = append(o.out, ',')
		}
		one := openObject(o.out)
		write(i, &one)
		o.out = one.close()
	}
	o.out = append(o.out, ']')
}

// inner begins an object within this one; closeInner ends it.
func (o *object) inner(name string) object {
	o.name(name)
	return openObject(o.out)
}

func (o *object) closeInner(inner object) { o.out = inner.close() }

// appendText appends a JSON string. Plain ASCII needs no escaping; everything else is
// left to encoding/json.
func appendText(out []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := marshal(text)
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(out, quoted...)
		}
	}
	out = append(out, '"')
	out = append(out, text...)
	return append(out, '"')
}
