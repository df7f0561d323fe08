package httpapi

import (
	"errors"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/strictjson"
)

// jsonBody is a request body that is one strict JSON object.
type jsonBody struct {
	// texts are the top-level fields whose value is a string; others names the rest.
	texts  map[string]string
	others []string
	// canonical is the same for every spelling of one value; see strictjson.Canonical.
	canonical []byte
}

func parseBody(body []byte) (jsonBody, error) {
	object, err := strictjson.Parse(body)
	if err != nil {
		var invalid *strictjson.Error
		if !errors.As(err, &invalid) {
			return jsonBody{}, err
		}
		return jsonBody{}, fault.New(fault.InvalidJSON, "The body is not a JSON object: %s.", invalid.Quoting)
	}
	parsed := jsonBody{texts: make(map[string]string, len(object)), canonical: strictjson.Canonical(object)}
	for name, value := range object {
		if text, is := value.(string); is {
			parsed.texts[name] = text
		} else {
			parsed.others = append(parsed.others, name)
		}
	}
	return parsed, nil
}
