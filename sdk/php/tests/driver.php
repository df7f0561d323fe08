<?php

// Makes calls with the SDK, one for each line of its input. internal/e2e/sdk/README.md
// describes the lines.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

while (($line = fgets(STDIN)) !== false) {
    $order = json_decode($line, false, 512, JSON_THROW_ON_ERROR);
    $flags = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;
    echo json_encode(carryOut($order), $flags), "\n";
}

function carryOut(stdClass $order): array
{
    $attempts = [];
    $client = null;
    try {
        $client = new Coax\Client(
            $order->base_url,
            $order->api_key,
            $order->api_secret,
            $order->ca_cert ?? null,
            optionsOf($order, $attempts),
        );
        if ($order->operation === 'sign') {
            return ['id' => $order->id, 'signature' => sign($client, $order)];
        }
        $result = call($client, $order);
        return [
            'id' => $order->id,
            'outcome' => 'success',
            'transaction_id' => $result->transaction_id ?? '',
            'code' => '',
            'class' => '',
            'replayed' => $result->replayed ?? false,
            'data' => wire($result),
            'attempts' => $attempts,
            'shown' => shown($client, $result, $attempts),
        ];
    } catch (Coax\CoaxError $error) {
        return [
            'id' => $order->id,
            'outcome' => $error->undecided ? 'pending' : 'failed',
            'transaction_id' => $error->operation?->transaction_id ?? '',
            'code' => $error->code,
            'status' => $error->status,
            'class' => substr($error::class, strlen('Coax\\')),
            'message' => $error->service_message,
            'request_id' => $error->request_id,
            'undecided' => $error->undecided,
            'retry_after' => $error->retry_after,
            'fields' => (object) $error->fields,
            'data' => wire($error->operation ?? $error->data ?? null),
            'attempts' => $attempts,
            'shown' => shown($client, $error, $attempts),
        ];
    } catch (InvalidArgumentException $error) {
        return ['id' => $order->id, 'outcome' => 'failed', 'code' => 'INVALID_CONFIG', 'message' => $error->getMessage()];
    }
}

function optionsOf(stdClass $order, array &$attempts): array
{
    $options = (array) ($order->options ?? []);
    $offset = $options['clock_offset'] ?? 0;
    unset($options['clock_offset']);
    $options['clock'] = static fn (): float => microtime(true) + $offset;
    $options['on_attempt'] = static function (Coax\Attempt $attempt) use (&$attempts): void {
        $attempts[] = $attempt;
    };
    return $options;
}

function call(Coax\Client $client, stdClass $order): Coax\Result
{
    $key = $order->idempotency_key ?? '';
    $arguments = (array) ($order->arguments ?? []);
    return match ($order->operation) {
        'activate' => $client->activate($order->body, $key),
        'renew' => $client->renew($order->body, $key),
        'advance-renew' => $client->advanceRenew($order->body, $key),
        'balance' => $client->balance(),
        'plans' => $client->plans(),
        'subscription' => $client->subscription($arguments),
        'transaction' => $client->transaction(...array_combine(
            array_map(static fn (string $name): string => lcfirst(str_replace('_', '', ucwords($name, '_'))), array_keys($arguments)),
            $arguments,
        )),
        'await' => $client->awaitSettled($key, 60),
    };
}

function sign(Coax\Client $client, stdClass $order): string
{
    $body = base64_decode($order->body_base64 ?? '', true);
    return $client->sign($order->method ?? '', $order->path ?? '', $order->query ?? '', $body, $order->timestamp ?? '', $order->nonce ?? '');
}

/** Returns a result as it was on the wire, with amounts as text and passwords by their name. */
function wire(mixed $value): mixed
{
    if ($value instanceof Coax\Result) {
        $fields = [];
        foreach ($value as $name => $ignored) {
            $fields[$name] = wire($value->{$name});
        }
        return (object) $fields;
    }
    return is_array($value) ? array_map(wire(...), $value) : $value;
}

/** Prints everything in every form that PHP has. */
function shown(mixed ...$values): string
{
    $text = '';
    foreach ($values as $value) {
        ob_start();
        var_dump($value);
        $text .= ob_get_clean() . print_r($value, true) . json_encode($value, JSON_PARTIAL_OUTPUT_ON_ERROR);
        $text .= print_r((array) $value, true);
        foreach ([static fn () => var_export($value, true), static fn () => serialize($value)] as $dump) {
            try {
                $text .= $dump();
            } catch (Throwable $refused) {
                $text .= $refused;
            }
        }
        if ($value instanceof Throwable) {
            $text .= $value . $value->getTraceAsString() . print_r($value->getTrace(), true);
        }
        if ($value instanceof Coax\Result) {
            $text .= print_r($value->toArray(), true) . print_r(iterator_to_array($value), true);
        }
    }
    return $text;
}
