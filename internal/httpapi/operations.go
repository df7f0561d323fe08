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

// Operations processes operations and looks them up.
type Operations interface {
	Process(ctx context.Context, request operation.Request) (operation.Result, error)
	Transaction(ctx context.Context, operatorID int64, id, key string) (operation.Operation, error)
	Subscription(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, error)
}

const (
	keyLenMin = 8
	keyLenMax = 100
)

// operate is the handler of an endpoint that debits the wallet. It checks media type,
// body and idempotency key, in that order, and then processes the operation.
func (a *API) operate(kind operation.Kind) handler {
	known := operation.KnownFields(kind)
	return func(ctx context.Context, r Request) (Result, error) {
		if err := checkMediaType(r.ContentType); err != nil {
			return Result{}, err
		}
		body, err := parseBody(r.Body)
		if err != nil {
			return Result{}, err
		}
		key, err := parseIdempotencyKey(r.IdempotencyKey)
		if err != nil {
			return Result{}, err
		}
		request := operation.Request{
			OperatorID: r.Caller.Operator.ID, Channel: operation.API, Actor: fmt.Sprintf("api:key %d", r.Caller.CredentialID),
			IdempotencyKey: key, Kind: kind, Fields: body.texts, Content: body.canonical,
		}
		for _, name := range body.others {
			if slices.Contains(known, name) {
				request.NotText = append(request.NotText, name)
			}
		}
		result, err := a.operations.Process(ctx, request)
		if err != nil {
			return Result{}, err
		}
		data := viewOperation(result.Operation)
		data.Customer.Password = result.Password
		return Result{Code: result.Code(), Message: result.Message(), Data: data, Replayed: result.Replayed}, nil
	}
}

// checkMediaType accepts application/json with any parameters, and UTF-8 as the only
// charset. "charset*" is refused first: mime silently drops an RFC 2231 continuation
// without its first part, so "charset*1=latin1" would pass as no charset at all.
func checkMediaType(values []string) error {
	if len(values) == 1 && !strings.Contains(strings.ToLower(values[0]), "charset*") {
		media, parameters, err := mime.ParseMediaType(values[0])
		charset, named := parameters["charset"]
		if err == nil && media == "application/json" && (!named || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")) {
			return nil
		}
	}
	return fault.New(fault.UnsupportedMediaType, "Send the body with Content-Type: application/json.")
}

func parseIdempotencyKey(values []string) (string, error) {
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

// transaction looks up an operation. The id takes precedence over the key.
func (a *API) transaction(ctx context.Context, r Request) (Result, error) {
	query, err := readQuery(r.RawQuery, lookupTransaction)
	if err != nil {
		return Result{}, err
	}
	op, err := a.operations.Transaction(ctx, r.Caller.Operator.ID, query[lookupTransaction.first], query[lookupTransaction.second])
	if err != nil {
		return Result{}, err
	}
	data := transactionData{operationData: viewOperation(op), ResultCode: op.Code(), ResultMessage: op.Message()}
	return Result{Message: fmt.Sprintf("Transaction %s stands at %s.", op.ID, op.State), Data: data}, nil
}

// subscription looks up a subscriber. The id takes precedence over the mobile.
func (a *API) subscription(ctx context.Context, r Request) (Result, error) {
	query, err := readQuery(r.RawQuery, lookupSubscription)
	if err != nil {
		return Result{}, err
	}
	found, err := a.operations.Subscription(ctx, r.Caller.Operator.ID, query[lookupSubscription.first], query[lookupSubscription.second])
	if err != nil {
		return Result{}, err
	}
	data := viewSubscription(found, r.Now, a.providerName)
	return Result{Message: fmt.Sprintf("Subscriber %s is %s.", found.ID, data.Status), Data: data}, nil
}
