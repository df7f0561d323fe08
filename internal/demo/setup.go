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

// Setup creates a demo's operator, money, plans, key and logins, as far as they are
// missing, and saves their credentials in a file. So it completes a demo that was killed
// during its setup, or that an older release has set up.
func Setup(ctx context.Context, n *server.Node, file string) (Info, error) {
	return SetupFrom(ctx, n, file, startNow(n))
}

// SetupFrom is Setup with the start of a demo, which may lie in the past.
func SetupFrom(ctx context.Context, n *server.Node, file string, from start) (Info, error) {
	service := admin.NewService(n.Store, n.Vault, from.actor, from.Now)
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

	info, err := readInfo(file)
	if err != nil {
		return info, err
	}
	// The saved credentials are valid if the store has the key; it has not if the demo
	// was given another store since.
	_, known, err := n.Store.CredentialByHash(ctx, access.HashKey(info.APIKey))
	if err != nil {
		return info, err
	}
	if !known {
		if err := setupOperator(ctx, n, service, operatorID, from, &info); err != nil {
			return info, err
		}
		if err := saveInfo(file, info); err != nil {
			return info, err
		}
	}
	return info, setupLogins(ctx, service, operatorID, file, &info)
}

// setupOperator creates what the operator needs to sell through the API.
func setupOperator(ctx context.Context, n *server.Node, service *admin.Service, operatorID int64, from start, info *Info) error {
	if err := setupCatalogue(ctx, n, service, from.Now()); err != nil {
		return err
	}
	// A history makes its own top-ups.
	if !from.History {
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
	info.LCOID, info.APIKey, info.APISecret = operatorID, issued.Key, issued.Secret.Reveal()
	return nil
}

func setupCatalogue(ctx context.Context, n *server.Node, service *admin.Service, at time.Time) error {
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

// setupLogins creates the demo's three logins if they are missing. A password is saved
// before its login is created, so that a demo that is killed in between knows it. Existing
// logins are not changed, unless their password was lost.
func setupLogins(ctx context.Context, service *admin.Service, operatorID int64, file string, info *Info) error {
	for _, one := range []struct {
		saved  *Login
		create admin.NewLogin
	}{
		{&info.Admin, admin.NewLogin{Username: "admin", Name: "Demo Administrator", Role: login.Administrator}},
		{&info.Operator, admin.NewLogin{Username: "operator", Name: "Demo Operator", Role: login.Owner, OperatorID: operatorID}},
		{&info.Finance, admin.NewLogin{Username: "finance", Name: "Demo Finance", Role: login.Finance}},
	} {
		person, err := service.LoginNamed(ctx, one.create.Username)
		var none *admin.Refusal
		switch {
		case err == nil && one.saved.Password != "":
			continue
		case err == nil:
			// The saved password was removed, and the store has only its hash.
			one.saved.Username = one.create.Username
			if _, one.saved.Password, err = service.ResetPassword(ctx, person.ID); err != nil {
				return err
			}
			if err := saveInfo(file, *info); err != nil {
				return err
			}
			continue
		case !errors.As(err, &none):
			return err
		}
		if one.saved.Password == "" {
			*one.saved = Login{Username: one.create.Username, Password: login.NewPassword()}
			if err := saveInfo(file, *info); err != nil {
				return err
			}
		}
		one.create.Password = one.saved.Password
		if _, _, err := service.CreateLogin(ctx, one.create); err != nil {
			return err
		}
	}
	return nil
}
