<?php

// Carries out one JSON order per line of standard input and prints what became of it, for
// tools that test a program.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

while (($line = fgets(STDIN)) !== false) {
    $order = json_decode($line, false, 512, JSON_THROW_ON_ERROR);
    $answer = ['id' => $order->id, 'outcome' => 'success', 'transaction_id' => '', 'code' => ''];
    try {
        $client = new Coax\Client($order->base_url, $order->api_key, $order->api_secret, $order->ca_cert ?? null);
        $method = ['activate' => 'activate', 'renew' => 'renew', 'advance-renew' => 'advanceRenew'][$order->operation];
        $answer['transaction_id'] = $client->$method($order->body, $order->idempotency_key)->transaction_id;
    } catch (Coax\CoaxError $error) {
        $answer['outcome'] = $error->undecided ? 'pending' : 'failed';
        $answer['transaction_id'] = $error->operation?->transaction_id ?? '';
        $answer['code'] = $error->code;
    }
    echo json_encode($answer), "\n";
}
