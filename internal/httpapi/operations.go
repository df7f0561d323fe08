package httpapi

import (
	"context"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// Operations does what costs money, and tells what became of it.
type Operations interface {
	Process(ctx context.Context, request operation.Request) (operation.Result, error)
	Transaction(ctx context.Context, operatorID int64, id, key string) (operation.Operation, error)
	Subscription(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, error)
}

const (
	keyLenMin = 8
	keyLenMax = 100
)

// operate is the handler of an endpoint that debits the wallet: media type,
// body, key, in that order, and then the operation's own eight steps.
func (a *API) operate(kind operation.Kind) handler {
	known := operation.KnownFields(kind)
	return func(ctx context.Context, call Call) (Answer, error) {
		if err := judgeMediaType(call.ContentType); err != nil {
			return Answer{}, err
		}
		body, err := parseBody(call.Body)
		if err != nil {
			return Answer{}, err
		}
		key, err := judgeIdempotencyKey(call.IdempotencyKey)
		if err != nil {
			return Answer{}, err
		}
		request := operation.Request{
			OperatorID: call.Caller.Operator.ID, Channel: operation.API, Actor: fmt.Sprintf("api:key %d", call.Caller.CredentialID),
			IdempotencyKey: key, Kind: kind, Fields: body.texts, Content: body.canonical,
		}
		for _, name := range body.others {
			if slices.Contains(known, name) {
				request.NotText = append(request.NotText, name)
			}
		}
		result, err := a.operations.Process(ctx, request)
		if err != nil {
			return Answer{}, err
		}
		data := viewOperation(result.Operation)
		data.Customer.Password = result.Password
		return Answer{Code: result.Code(), Message: result.Message(), Data: data, Replayed: result.Replayed}, nil
	}
}

// judgeMediaType takes application/json with any parameters, in UTF-8 if it names a
// charset. "charset*" is refused beforehand: mime knows parameters that come in
// pieces (RFC 2231), and drops a piece without its beginning without a word, so that
// "charset*1=latin1" would pass for no charset at all.
func judgeMediaType(values []string) error {
	if len(values) == 1 && !strings.Contains(strings.ToLower(values[0]), "charset*") {
		media, parameters, err := mime.ParseMediaType(values[0])
		charset, named := parameters["charset"]
		if err == nil && media == "application/json" && (!named || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")) {
			return nil
		}
	}
	return fault.New(fault.UnsupportedMediaType, "Send the body with Content-Type: application/json.")
}

func judgeIdempotencyKey(values []string) (string, error) {
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return "", fault.New(fault.MissingIdempotencyKey, "Send an Idempotency-Key: one for each business action, the same for its retries.")
	}
	if len(values) == 1 && wellFormedIdempotencyKey(values[0]) {
		return values[0], nil
	}
	return "", fault.New(fault.InvalidIdempotencyKey,
		"The Idempotency-Key has to be %d to %d characters from A-Z, a-z, 0-9, underscore, period, colon and hyphen, and be there once.", keyLenMin, keyLenMax)
}

func wellFormedIdempotencyKey(key string) bool {
	if len(key) < keyLenMin || len(key) > keyLenMax {
		return false
	}
	for i := range len(key) {
		switch c := key[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '.', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// transaction looks up an operation. The id wins over the key.
func (a *API) transaction(ctx context.Context, call Call) (Answer, error) {
	asked, err := readQuery(call.RawQuery, askTransaction)
	if err != nil {
		return Answer{}, err
	}
	op, err := a.operations.Transaction(ctx, call.Caller.Operator.ID, asked[askTransaction.first], asked[askTransaction.second])
	if err != nil {
		return Answer{}, err
	}
	data := transactionData{operationData: viewOperation(op), ResultCode: op.Code(), ResultMessage: op.Message()}
	return Answer{Message: fmt.Sprintf("Transaction %s stands at %s.", op.ID, op.State), Data: data}, nil
}

// subscription looks up a subscriber. The id wins over the mobile.
func (a *API) subscription(ctx context.Context, call Call) (Answer, error) {
	asked, err := readQuery(call.RawQuery, askSubscription)
	if err != nil {
		return Answer{}, err
	}
	found, err := a.operations.Subscription(ctx, call.Caller.Operator.ID, asked[askSubscription.first], asked[askSubscription.second])
	if err != nil {
		return Answer{}, err
	}
	data := viewSubscription(found, call.Now, a.providerName)
	return Answer{Message: fmt.Sprintf("Subscriber %s is %s.", found.ID, data.Status), Data: data}, nil
}
