<?php

declare(strict_types=1);

// Loads the classes of the SDK without Composer.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Coax\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, 5), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
