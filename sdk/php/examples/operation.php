<?php

require __DIR__ . '/../autoload.php';

$demo = json_decode(file_get_contents('.demo/demo.json'));
$client = new Coax\Client($demo->base_url, $demo->api_key, $demo->api_secret, $demo->ca_cert, [
    'timeout' => 30,
    'on_attempt' => function (Coax\Attempt $attempt): void {
        echo "$attempt->call $attempt->number $attempt->status $attempt->code $attempt->pause\n";
    },
]);
try {
    $operation = $client->renew(['subscriber_id' => '100001', 'plan_id' => 'FAMILY-1'], 'order-4711');
    echo "Done: store $operation->transaction_id. It cost {$operation->wallet->charged}.\n";
} catch (Coax\CoaxError $error) {
    if ($error->undecided) {
        echo "It may have been carried out: keep the key, and call again later with the same one.\n";
    } elseif ($error instanceof Coax\InsufficientBalanceError) {
        echo "Nothing was charged: top up $error->shortfall, and call again with the same key.\n";
    } elseif ($error instanceof Coax\ProviderError) {
        echo "Nothing was charged: {$error->operation->reason}. A new attempt needs a new key.\n";
    } else {
        echo "Refused, and nothing was charged: {$error->getMessage()}\n";
    }
}
