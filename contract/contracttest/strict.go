package contracttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// decode parses a body that has to be one JSON value. It rejects what encoding/json
// accepts: bytes that are not UTF-8, duplicate names. Numbers keep their spelling.
func decode(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	// The decoder below reads token by token and would stop after the value.
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	return decodeValue(decoder, "")
}

func decodeValue(decoder *json.Decoder, at string) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(decoder, at)
	case json.Delim('['):
		return decodeArray(decoder, at)
	}
	return token, nil
}

func decodeObject(decoder *json.Decoder, at string) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder gives nothing else here
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("%s/%s is there twice", at, name)
		}
		if object[name], err = decodeValue(decoder, at+"/"+name); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}

func decodeArray(decoder *json.Decoder, at string) (any, error) {
	array := []any{}
	for decoder.More() {
		value, err := decodeValue(decoder, fmt.Sprintf("%s/%d", at, len(array)))
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := decoder.Token()
	return array, err
}
