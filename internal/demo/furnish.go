package demo

import (
	"context"
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
)

// Furnish gives a new demo its operator, money, plans, key and logins. It can be
// repeated: a demo that was killed while being furnished is completed, and one that
// an older release furnished gets what it lacks.
func Furnish(ctx context.Context, n *server.Node, keptAt string) (Info, error) {
	return FurnishFrom(ctx, n, keptAt, fromNow(n))
}

func FurnishFrom(ctx context.Context, n *server.Node, keptAt string, begins beginning) (Info, error) {
	service := admin.NewService(n.Store, n.Vault, begins.actor, begins.Now)
	operators, err := service.Operators(ctx)
	if err != nil {
		return Info{}, err
	}
	var operatorID int64
	if len(operators) > 0 {
		operatorID = operators[0].ID
	} else {
		operator, err := service.CreateOperator(ctx, "Demo Cable", admin.OperatorChange{CommissionBPS: new(250)})
		if err != nil {
			return Info{}, err
		}
		operatorID = operator.ID
	}

	line, err := readLine(keptAt)
	if err != nil {
		return line, err
	}
	// What an earlier start kept is good if this store knows the key; it does
	// not if the demo was given another store since.
	_, known, err := n.Store.CredentialByHash(ctx, access.HashKey(line.APIKey))
	if err != nil {
		return line, err
	}
	if !known {
		if err := furnishTrade(ctx, n, service, operatorID, begins, &line); err != nil {
			return line, err
		}
		if err := KeepLine(keptAt, line); err != nil {
			return line, err
		}
	}
	return line, furnishLogins(ctx, service, operatorID, keptAt, &line)
}

// furnishTrade gives the operator what it needs to sell through the API.
func furnishTrade(ctx context.Context, n *server.Node, service *admin.Service, operatorID int64, begins beginning, line *Info) error {
	if err := furnishCatalogue(ctx, n, service, begins.Now()); err != nil {
		return err
	}
	// What a history begins and ends with is the history's own.
	if !begins.History {
		if _, _, err := service.TopUp(ctx, admin.TopUp{
			OperatorID: operatorID, Amount: money.Paise(10_000_00), Reference: "demo opening balance",
		}); err != nil {
			return err
		}
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		if _, err := service.AllowAddress(ctx, operatorID, address); err != nil {
			return err
		}
	}
	issued, err := service.IssueKey(ctx, operatorID, access.AllPermissions)
	if err != nil {
		return err
	}
	line.LCOID, line.APIKey, line.APISecret = operatorID, issued.Key, issued.Secret.Reveal()
	return nil
}

func furnishCatalogue(ctx context.Context, n *server.Node, service *admin.Service, at time.Time) error {
	if err := n.Store.RecordComparison(ctx, catalogue.Comparison{
		Provider:   n.Config.Provider.Name,
		At:         at,
		Components: simulator.Components(),
	}); err != nil {
		return err
	}
	for _, plan := range []subscription.Plan{
		{ID: "BASIC-1", Name: "Basic, 1 month", Description: "120 channels", Price: money.Paise(199_00), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"},
		{ID: "FAMILY-1", Name: "Family, 1 month", Description: "240 channels", Price: money.Paise(349_00), Months: 1, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: "FAMILY-3", Name: "Family, 3 months", Description: "240 channels, a quarter at once", Price: money.Paise(999_00), Months: 3, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: "COMBO-1", Name: "Family and streaming, 1 month", Description: "240 channels and the streaming pack", Price: money.Paise(499_00), Months: 1, Type: subscription.Combo, Main: "TV-FAMILY", Addon: "OTT-PLUS"},
	} {
		if _, err := service.SetPlan(ctx, plan); err != nil {
			return err
		}
	}
	return nil
}

// furnishLogins makes the demo's three logins where the store has none of that name.
// Their passwords are kept before they are used, so that a demo that is killed in
// between knows them all the same. What a person has made of a login since is theirs.
func furnishLogins(ctx context.Context, service *admin.Service, operatorID int64, keptAt string, line *Info) error {
	for _, one := range []struct {
		kept *Login
		made admin.NewLogin
	}{
		{&line.Admin, admin.NewLogin{Username: "admin", Name: "Demo Administrator", Role: login.Administrator}},
		{&line.Operator, admin.NewLogin{Username: "operator", Name: "Demo Operator", Role: login.Owner, OperatorID: operatorID}},
		{&line.Finance, admin.NewLogin{Username: "finance", Name: "Demo Finance", Role: login.Finance}},
	} {
		person, err := service.LoginNamed(ctx, one.made.Username)
		var none *admin.Refusal
		switch {
		case err == nil && one.kept.Password != "":
			continue
		case err == nil:
			// Somebody has removed what was kept, and nobody else can say it again.
			one.kept.Username = one.made.Username
			if _, one.kept.Password, err = service.ResetPassword(ctx, person.ID); err != nil {
				return err
			}
			if err := KeepLine(keptAt, *line); err != nil {
				return err
			}
			continue
		case !errors.As(err, &none):
			return err
		}
		if one.kept.Password == "" {
			*one.kept = Login{Username: one.made.Username, Password: login.NewPassword()}
			if err := KeepLine(keptAt, *line); err != nil {
				return err
			}
		}
		one.made.Password = one.kept.Password
		if _, _, err := service.CreateLogin(ctx, one.made); err != nil {
			return err
		}
	}
	return nil
}
